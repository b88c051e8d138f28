import datetime
import json
import re
import threading
from pathlib import Path

import pytest

import onnxgen
from chat_templates import chat_tokenizer
from onnxgen.errors import ChatTemplateError, ModelFileError
from onnxgen.preprocess.chat_template import ChatTemplate
from onnxgen.preprocess.template_files import TemplateText
from onnxgen.preprocess.template_limits import RenderLimits

USER = {"role": "user", "content": "Hi"}


def template(text, *, limits=None, **special_tokens):
    return ChatTemplate({"default": TemplateText(text, "T")}, special_tokens=special_tokens, limits=limits)


def render(text, messages=(USER,), **options):
    return template(text).render(messages, **options)


# One template for each thing that published templates use.
FEATURES = [
    ("{{ messages[::-1][-1].content }}", "Sys"),
    ("{{ messages[1:] | length }}{{ messages[-1].content[:2] }}", "2la"),
    ("{{ 'aXa'.strip('a').replace('X','y').title() }}", "Y"),
    ("{% for i in [1,2,3] %}{% if i==2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
    ("{% for i in [1,2,3] %}{% if i==2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "13"),
    ("""{{ {"b":1,"a":"é<>&'"}|tojson }}""", """{"b": 1, "a": "é<>&'"}"""),
    ("""{{ {"b":"é"}|tojson(ensure_ascii=true) }}""", '{"b": "\\u00e9"}'),
    ("{{ {'b':[1]}|tojson(indent=2) }}", '{\n  "b": [\n    1\n  ]\n}'),
    ("{{ {'b':1,'a':2}|tojson(separators=(',',':'), sort_keys=true) }}", '{"a":2,"b":1}'),
    ("{% generation %}x{% if true %}y{% endif %}{% endgeneration %}", "xy"),
    ("{% set ns = namespace(x=1) %}{% for i in [1,2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "4"),
    ("{% macro m(a, b='z') %}{{ a }}{{ b }}{% endmacro %}{{ m('x') }}{{ m('x', b='y') }}", "xzxy"),
    ("{% for m in messages %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }};{% endfor %}",
     "0TrueFalse;1FalseFalse;2FalseTrue;"),
    ("{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined }}|{% endfor %}", "|system|user|"),
    ("{% for m in messages if m.role != 'assistant' %}{{ m.content }}{% endfor %}", "SysHi"),
    ("{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}", "a2b1"),
    ("{% for k, v in {'b': 1, 'a': 2} | items %}{{ k }}{{ v }}{% endfor %}", "b1a2"),
    ("{% for k, v in {'b': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "b1"),
    ("{{ '  x ' | trim }}{{ 'x' | upper }}{{ ['a', 'b'] | map('upper') | list }}", "xX['A', 'B']"),
    ("{{ (messages | selectattr('role', 'equalto', 'system') | list)[0].content }}", "Sys"),
    ("{{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | join(',') }}", "system,assistant"),
    ("{{ none | default('d', true) }}{{ '' | default('e', true) }}{{ nothing | default('f') }}", "def"),
    ("{{ {} is mapping }}{{ [] is sequence }}{{ '' is string }}{{ true is boolean }}", "TrueTrueTrueTrue"),
    ("{{ [] is iterable }}{{ none is none }}{{ x is defined }}{{ 1 is number }}", "TrueTrueFalseTrue"),
    ("{{ 'a,b'.split(',')[1] }}{{ ' a '.lstrip() }}{{ ' a'.rstrip() }}", "ba  a"),
    ("{{ 'ab'.startswith('a') and 'ab'.endswith('b') }}", "True"),
    ("{{ {'k': 1}.get('k') }}{{ {}.get('k', 'no') }}{{ 'x'.upper() }}", "1noX"),
    ("{{ 'a' ~ 1 ~ none ~ [1] }}", "a1None[1]"),
    ("{# ünïcode … コメント #}{{ '「' + messages[1].content + '」' }}", "「Hi」"),
    ("{{ '/nothink' if not enable_thinking else '' }}", "/nothink"),
    ("{{ '%s-%d' % ('a', 3) }}{{ '{}:{:>3}'.format('a', 1) }}", "a-3a:  1"),
    ("{{ range(3) | list }}{{ [3,1,2] | sort | first }}{{ [1,2] | last }}", "[0, 1, 2]12"),
    ("{{ 'a\nb' | indent(2) }}{{ 'abc' | replace('b', '') }}{{ 'xy' | capitalize }}", "a\n  bacXy"),
    ("{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 3 }}{{ 'ab' * 2 }}{{ [1] + [2] }}", "338abab[1, 2]"),
    ("{% set x = ['a'] %}{% set x = x + ['b'] %}{{ x }}", "['a', 'b']"),
    ("{% if 'a' in 'abc' and 'z' not in ['a'] %}in{% elif false %}{% else %}out{% endif %}", "in"),
    ("{% set b %}block{% endset %}{{ b }}{% filter upper %}f{% endfilter %}", "blockF"),
    ("{% macro m() %}{{ caller(1) }}{% endmacro %}{% call(x) m() %}<{{ x }}>{% endcall %}", "<1>"),
    ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
    ("a\n  {% if true %}\nb\n  {% endif %}\nc", "a\nb\nc"),
    ("a {{- ' b ' -}} c", "a b c"),
    ("{{ dict(a=1).a }}{{ {'a b': 2}['a b'] }}{{ messages[0]['role'] }}", "12system"),
    ("{{ undefined_thing }}{{ messages[0].nothing }}", ""),
    ("{{ messages | map(attribute='content') | map('length') | sum }}", "9"),
    ("{{ joiner is defined }}{{ lipsum is defined }}", "TrueFalse"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FEATURES)
def test_features_of_published_templates(text, expected):
    messages = [{"role": "system", "content": "Sys"}, USER, {"role": "assistant", "content": "last"}]
    assert render(text, messages) == expected


def test_variables_reach_the_template():
    text = "{{ bos_token }}{{ eos_token }}{{ tools[0].name }}{{ documents[0].text }}{{ date_string }}{{ add_generation_prompt }}"
    made = template(text, bos_token="<s>", eos_token="</s>").render(
        [USER], tools=[{"name": "f"}], documents=[{"text": "d"}], date_string="today", eos_token="<e>"
    )
    assert made == "<s><e>fdtodayTrue"
    assert (
        render(
            "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}",
            add_generation_prompt=False,
        )
        == "TrueTrueFalse"
    )


def test_time_can_be_pinned():
    text = '{% if strftime_now is defined %}{{ strftime_now("%Y-%m-%d") }}{% endif %}'
    assert render(text, clock=lambda: datetime.datetime(2024, 5, 17)) == "2024-05-17"
    assert render(text) == datetime.datetime.now().strftime("%Y-%m-%d")


def test_the_templates_own_message_passes_through():
    with pytest.raises(ChatTemplateError, match="Conversation roles must alternate"):
        render("{{ raise_exception('Conversation roles must alternate') }}")


def test_errors_name_file_and_line():
    with pytest.raises(ChatTemplateError, match="T, line 3: TypeError"):
        render("a\nb\n{{ 1 + 'x' }}")
    with pytest.raises(ChatTemplateError, match=r"T, line 2: .*endfor"):
        render("a\n{% endfor %}")
    with pytest.raises(ChatTemplateError, match=r"T, line 2: .*endfor"):
        template("a\n{% endfor %}").check()
    with pytest.raises(ChatTemplateError, match="'strftime_now' is not a variable"):
        render("x", strftime_now=1)


@pytest.mark.parametrize(
    "text",
    [
        """{{ lipsum.__globals__["os"].popen("id").read() }}""",
        "{{ cycler.__init__.__globals__ }}",
        '{{ "".__class__.__mro__ }}',
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ messages.clear() }}",
        "{{ namespace(__class__=1) }}",
        "{% set ns = namespace() %}{% set ns._x = 1 %}",
        "{{ dict.__class__.__mro__ }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ strftime_now.__globals__['datetime'] }}",
        "{{ '{0.__class__.__mro__}'.format(1).x.y }}",
        "{{ (''|attr('__class__')).__mro__ }}",
        "{{ self.__init__.__globals__ }}",
        "{% include '/etc/passwd' %}",
        "{% import '/etc/passwd' as x %}",
    ],
)
def test_the_sandbox_refuses(text):
    with pytest.raises(ChatTemplateError):
        render(text)


def test_every_template_runs_in_the_sandbox():
    sources = {path: path.read_text("utf-8") for path in Path(onnxgen.__file__).parent.rglob("*.py")}
    users = {path.name: text for path, text in sources.items() if "import jinja2" in text}
    assert set(users) == {"template_environment.py", "template_filters.py", "template_program.py"}
    other = re.compile(r"(?<!Chat)Environment\(|\bTemplate\(|from_string\(|NativeEnv")
    assert not any(other.search(text) for text in users.values())
    assert "class ChatEnvironment(ImmutableSandboxedEnvironment)" in users["template_environment.py"]


def test_templates_cannot_change_messages():
    messages = [{"role": "user", "content": "Hi", "extra": [1]}]
    render("{% set ns = namespace(m=messages[0]) %}{% set ns.m = 1 %}x", messages)
    assert messages == [{"role": "user", "content": "Hi", "extra": [1]}]


DOUBLE = "{% set ns = namespace(x=%START%) %}{% for i in range(60) %}{% set ns.x = %STEP% %}{% endfor %}%END%"


def double(start, step, end="{{ ns.x }}"):
    return DOUBLE.replace("%START%", start).replace("%STEP%", step).replace("%END%", end)


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'A' * 200000000 }}",
        "{{ 200000000 * 'A' }}",
        "{{ [0] * 200000000 }}",
        "{{ ['a' * 100000] * 100000 }}",
        double("'a'", "ns.x ~ ns.x"),
        double("'a'", "ns.x + ns.x"),
        double("[1]", "ns.x + ns.x"),
        double("[1]", "[ns.x, ns.x]"),
        double("[1]", "[ns.x, ns.x]", "{{ ns.x | tojson }}"),
        double("[1]", "[ns.x, ns.x]", "{{ ns.x | string | length }}"),
        double("'a'", "ns.x | replace('a', 'aa')"),
        double("'a'", "ns.x.replace('a', 'aa')"),
        double("'a'", "[ns.x, ns.x] | join"),
        double("'a'", "'-'.join([ns.x, ns.x])"),
        double("'a'", "'%s%s' % (ns.x, ns.x)"),
        double("'a'", "'{}{}'.format(ns.x, ns.x)"),
        double("'a'", "'{a}{a}'.format_map({'a': ns.x})"),
        double("'a'", "'%s%s' | format(ns.x, ns.x)"),
        double("10", "ns.x * ns.x", ""),
        "{{ 9 ** 99999 }}",
        "{{ 'a' | center(10 ** 9) }}",
        "{{ 'a'.center(10 ** 9) }}",
        "{{ 'a'.ljust(999999999) }}",
        "{{ 'a\tb'.expandtabs(999999999) }}",
        "{{ '5'.zfill(999999999) }}",
        "{{ 'a\nb' | indent(999999999) }}",
        "{{ [1] | tojson(indent=99999999) }}",
        "{{ '%0999999999d' % 1 }}",
        "{{ '%*d' % (999999999, 1) }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ '{:>{}}'.format(1, 999999999) }}",
        "{{ range(1000000000) | list }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}text{% endfor %}{% endfor %}",
        "{% set x %}{% for i in range(99999) %}{% for j in range(999) %}" + "t" * 999 + "{% endfor %}{% endfor %}{% endset %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in range(99999) %}" + "{{ messages | tojson }}" * 50 + "{% endfor %}",
        "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
        "{% set s = 'a' * 1000000 %}{{ s.translate({97: 'b' * 1000000}) }}",
        "{{ ('x' * 1000000) | wordwrap(1) }}",
        "{{ ('x' * 1000000) | urlize }}",
    ],
)  # fmt: skip
def test_resource_bombs_are_stopped(text):
    import time

    begin = time.monotonic()
    with pytest.raises(ChatTemplateError):
        template(text, limits=RenderLimits(max_seconds=0.3)).render([USER])
    assert time.monotonic() - begin < 20  # without the limits these take minutes, or the machine's memory


@pytest.mark.parametrize(
    "text",
    [
        double("messages[0].content", "ns.x.replace('<', '<<')"),
        double("messages[0].content", "ns.x | replace('<', '<<')"),
        double("messages[0].content", "ns.x.split('|') | join(ns.x)"),
        double("messages[0].content", "ns.x ~ ns.x"),
        double("[messages[0].content]", "[ns.x, ns.x]", "{{ ns.x }}"),
    ],
)
def test_resource_bombs_of_content_are_stopped(tmp_path, text):
    made = template(text, limits=RenderLimits(max_seconds=1))
    with pytest.raises(ChatTemplateError):
        made.prompt(chat_tokenizer(tmp_path), [{"role": "user", "content": "<|im_end|>"}])


def test_limits_grow_with_the_messages():
    long = {"role": "user", "content": "x" * 6_000_000}
    assert len(render("{{ messages[0].content }}", [long])) == 6_000_000
    with pytest.raises(ChatTemplateError, match="at most 1000"):
        template("{{ messages[0].content }}", limits=RenderLimits(max_chars=1000)).render([long])


def test_a_template_renders_in_several_threads():
    made = template("{% for m in messages %}{{ m.content }}{% endfor %}")
    results = {}

    def work(n):
        results[n] = [made.render([{"role": "user", "content": str(n)}] * n) for _ in range(30)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [str(n) * n] * 30 for n in range(1, 5)}


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_the_last_message_can_be_left_open():
    messages = [USER, {"role": "assistant", "content": "The answer  "}]
    start = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nThe answer"
    assert render(CHATML, messages, continue_final_message=True) == start + "  "
    assert (
        render(CHATML.replace("m.content", "m.content | trim"), messages, continue_final_message=True)
        == start
    )
    parts = [USER, {"role": "assistant", "content": [{"type": "text", "text": "The answer"}]}]
    text = CHATML.replace("m.content", "m.content if m.content is string else m.content[0].text")
    assert render(text, parts, continue_final_message=True) == start
    assert messages[1]["content"] == "The answer  "


def test_the_last_message_cannot_always_be_left_open():
    with pytest.raises(ChatTemplateError, match="no message to continue"):
        render(CHATML, [], continue_final_message=True)
    with pytest.raises(ChatTemplateError, match="does not render the last message"):
        render("x", [USER], continue_final_message=True)


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")


def test_discovery_by_precedence(tmp_path):
    assert ChatTemplate.find(tmp_path) is None
    with pytest.raises(ChatTemplateError, match=r"no chat template \(looked for chat_template\.jinja"):
        ChatTemplate.require(tmp_path)
    places = [
        ("tokenizer_config.json", {"chat_template": "A{{ bos_token }}", "bos_token": {"content": "<s>"}}, "A<s>", ": chat_template"),
        ("processor_config.json", {"chat_template": "B"}, "B", ": chat_template"),
        ("chat_template.json", {"chat_template": "C"}, "C", ": chat_template"),
        ("chat_templates/default.jinja", "D", "D", ""),
        ("chat_template.jinja", "E", "E", ""),
    ]  # fmt: skip
    for name, content, expected, key in places:
        write(tmp_path / name, content)
        found = ChatTemplate.require(tmp_path)
        assert found.render([USER]) == expected
        assert found.source == f"{tmp_path / name}{key}"
    override = ChatTemplate.require(tmp_path, override="{{ messages[0].content }}")
    assert (override.render([USER]), override.source) == ("Hi", "the template given")


@pytest.mark.parametrize("place", ["list", "mapping", "files", "additional"])
def test_named_templates(tmp_path, place):
    named = {"default": "plain", "tool_use": "tools", "rag": "docs"}
    if place == "files":
        for name, text in named.items():
            write(tmp_path / "chat_templates" / f"{name}.jinja", text)
    elif place == "additional":
        write(tmp_path / "chat_template.jinja", named["default"])
        for name in ("tool_use", "rag"):
            write(tmp_path / "additional_chat_templates" / f"{name}.jinja", named[name])
    else:
        listed = [{"name": name, "template": text} for name, text in named.items()]
        write(tmp_path / "tokenizer_config.json", {"chat_template": listed if place == "list" else named})
    found = ChatTemplate.require(tmp_path)
    assert found.names == ("default", "rag", "tool_use")
    assert found.render([USER]) == "plain"
    assert found.render([USER], tools=[]) == "plain"
    assert found.render([USER], tools=[{"name": "f"}]) == "tools"
    assert found.render([USER], template="rag") == "docs"
    assert ChatTemplate.require(tmp_path, override="rag").render([USER]) == "docs"
    with pytest.raises(ChatTemplateError, match="no template named 'x'; there are default, rag, tool_use"):
        found.render([USER], template="x")


def test_one_named_template_is_the_default_and_several_are_not(tmp_path):
    write(tmp_path / "tokenizer_config.json", {"chat_template": [{"name": "only", "template": "one"}]})
    assert ChatTemplate.require(tmp_path).render([USER]) == "one"
    write(tmp_path / "tokenizer_config.json", {"chat_template": {"a": "1", "b": "2"}})
    with pytest.raises(ChatTemplateError, match="no default template; there are a, b"):
        ChatTemplate.require(tmp_path).render([USER])


@pytest.mark.parametrize(
    "content", ["[1]", '{"chat_template": 3}', '{"chat_template": [{"name": "x"}]}', "{"]
)
def test_broken_places_are_named(tmp_path, content):
    write(tmp_path / "tokenizer_config.json", content)
    with pytest.raises(ModelFileError, match=r"tokenizer_config\.json"):
        ChatTemplate.find(tmp_path)


def test_an_empty_template_file_is_an_error(tmp_path):
    write(tmp_path / "chat_template.jinja", "")
    with pytest.raises(ModelFileError, match=r"chat_template\.jinja is empty"):
        ChatTemplate.find(tmp_path)


def test_a_template_must_be_of_reasonable_size():
    with pytest.raises(ChatTemplateError, match="has 1000001 characters"):
        render("x" * 1_000_001)
    with pytest.raises(ChatTemplateError):
        render("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}")
