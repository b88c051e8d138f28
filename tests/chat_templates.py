"""Chat templates in the manner of published families, with what is hard about each, and a tokenizer for all."""

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from onnxgen.preprocess.byte_alphabet import CHARACTER_OF_BYTE
from onnxgen.preprocess.chat_template import ChatTemplate
from onnxgen.preprocess.template_files import TemplateText
from onnxgen.preprocess.tokenizer import Tokenizer

QWEN = """\
{%- if tools %}<|im_start|>system
{%- if messages[0].role == 'system' %}
{{ messages[0].content }}{% endif %}
<tools>{% for tool in tools %}

{{ tool | tojson }}{% endfor %}

</tools><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- set ns = namespace(last=messages | length - 1, searching=true) %}
{%- for message in messages[::-1] %}{% set index = (messages | length - 1) - loop.index0 %}
{%- if ns.searching and message.role == 'user' and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
{%- set ns.searching = false %}{% set ns.last = index %}{% endif %}{% endfor %}
{%- for message in messages %}
{%- set content = message.content if message.content is string else '' %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}<|im_start|>{{ message.role }}
{{ content }}<|im_end|>
{% elif message.role == 'assistant' %}
{%- set reasoning = '' %}
{%- if message.reasoning_content is string %}{% set reasoning = message.reasoning_content %}
{%- elif '</think>' in content %}
{%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}
{%- if loop.index0 > ns.last and (loop.last or reasoning) %}<|im_start|>assistant
<think>
{{ reasoning.strip('\\n') }}
</think>

{{ content.lstrip('\\n') }}
{%- else %}<|im_start|>assistant
{{ content }}{% endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {% if call.function.arguments is string %}{{ call.function.arguments }}{% else %}{{ call.function.arguments | tojson }}{% endif %}}
</tool_call>{% endfor %}<|im_end|>
{% elif message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ content }}
</tool_response><|im_end|>
{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"""

LLAMA = """\
{{- bos_token }}{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] | trim %}{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}{{ 'Today Date: ' + strftime_now('%d %b %Y') + '\\n\\n' + system }}{{ '<|eot_id|>' }}
{%- for message in messages %}
{%- if message.tool_calls %}{% if message.tool_calls | length != 1 %}{{ raise_exception('only one call') }}{% endif %}
{%- set call = message.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", "parameters": ' }}{{ call.arguments | tojson }}{{ '}<|eot_id|>' }}
{%- elif message.role == 'tool' %}{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}{{ message.content | tojson if message.content is mapping else message.content }}{{ '<|eot_id|>' }}
{%- else %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}
{%- if tools is not none %}{% for t in tools %}{{ t | tojson(indent=4) }}{% endfor %}{% endif %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

MISTRAL = """\
{%- set loop_messages = messages %}{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set loop_messages = messages[1:] %}{% endif %}
{{- bos_token }}{% for message in loop_messages %}
{%- if message.role == 'user' %}
{%- if loop.last and tools %}{{ '[AVAILABLE_TOOLS] ' + tools | map(attribute='function') | list | tojson(ensure_ascii=true) + '[/AVAILABLE_TOOLS]' }}{% endif %}
{%- if loop.last and system is defined %}{{ '[INST] ' + system + '\\n\\n' + message.content + '[/INST]' }}{% else %}{{ '[INST] ' + message.content + '[/INST]' }}{% endif %}
{%- elif message.tool_calls %}{{ '[TOOL_CALLS] [' }}{% for call in message.tool_calls %}{% if call.id is not defined or call.id | length != 9 %}{{ raise_exception('tool call ids must have 9 characters') }}{% endif %}
{{- call.function | tojson }}, "id": "{{ call.id }}"{% if not loop.last %}, {% endif %}{% endfor %}{{ ']' + eos_token }}
{%- elif message.role == 'assistant' %}{{ ' ' + message.content | trim + eos_token }}
{%- elif message.role == 'tool' %}{{ '[TOOL_RESULTS] {"content": ' ~ message.content ~ ', "call_id": "' ~ message.tool_call_id ~ '"}[/TOOL_RESULTS]' }}
{%- else %}{{ raise_exception('only user, assistant and tool roles are supported') }}{% endif %}{% endfor %}"""

PHI = """\
{% for message in messages %}{% if message['role'] == 'system' and tools %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + (tools | tojson) + '<|/tool|>' + '<|end|>' }}
{%- else %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""

GEMMA = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate user/assistant/user/...') }}{% endif %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<start_of_turn>' + role + '\\n' }}
{%- if message['content'] is string %}{{ message['content'] | trim }}{% else %}{% for item in message['content'] %}{% if item['type'] == 'image' %}<start_of_image>{% elif item['type'] == 'text' %}{{ item['text'] | trim }}{% endif %}{% endfor %}{% endif %}
{{- '<end_of_turn>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

GLM = """\
[gMASK]<sop>{% if tools %}<|system|>
{% for tool in tools %}{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}{% endif %}
{%- macro visible(content) -%}{%- if content is string -%}{{- content }}{%- elif content is iterable and content is not mapping -%}{%- for item in content -%}{%- if item is mapping and item.type == 'text' -%}{{- item.text }}{%- elif item is string -%}{{- item }}{%- endif -%}{%- endfor -%}{%- else -%}{{- content }}{%- endif -%}{%- endmacro -%}
{%- for m in messages %}{% if m.role == 'tool' %}<|observation|>
<tool_response>
{{ visible(m.content) }}
</tool_response>
{%- elif m.role == 'assistant' %}<|assistant|>
{% set content = visible(m.content) %}{% if '</think>' in content %}{% set content = (content.split('</think>') | last).strip() %}{% endif %}<think></think>
{{- '\\n' + content.strip() if content.strip() }}
{%- for tc in m.tool_calls or [] %}
<tool_call>{{ tc.function.name }}
{% for k, v in tc.function.arguments.items() %}<arg_key>{{ k }}</arg_key>
<arg_value>{{ v if v is string else v | tojson(ensure_ascii=False) }}</arg_value>
{% endfor %}</tool_call>{% endfor %}
{%- else %}<|{{ m.role }}|>
{{ visible(m.content) }}{{- '/nothink' if (enable_thinking is defined and not enable_thinking and not visible(m.content).endswith('/nothink')) else '' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{{- '\\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' }}{% endif %}"""

DEEPSEEK = """\
{%- set ns = namespace(system='') %}{% for m in messages if m['role'] == 'system' %}{% set ns.system = ns.system + m['content'] %}{% endfor %}
{{- bos_token }}{{ ns.system }}{% for m in messages %}
{%- if m['role'] == 'user' %}{{ '<｜User｜>' + m['content'] }}
{%- elif m['role'] == 'assistant' and m['tool_calls'] %}{{ '<｜Assistant｜>' }}{% for c in m['tool_calls'] %}{{ '<｜tool▁call▁begin｜>' + c['function']['name'] + '<｜tool▁sep｜>' + c['function']['arguments'] + '<｜tool▁call▁end｜>' }}{% endfor %}{{ eos_token }}
{%- elif m['role'] == 'assistant' %}{% set content = m['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>', 1)[1] %}{% endif %}{{ '<｜Assistant｜></think>' + content + eos_token }}
{%- elif m['role'] == 'tool' %}{{ '<｜tool▁output▁begin｜>' + m['content'] + '<｜tool▁output▁end｜>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{{ '<think>' if thinking else '</think>' }}{% endif %}"""

GRANITE = """\
{%- for message in messages %}{{ '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n' }}{% if loop.last and add_generation_prompt %}{{ '<|start_of_role|>assistant' }}{% if controls %}{{ ' ' + controls | tojson() }}{% endif %}{{ '<|end_of_role|>' }}{% endif %}{% endfor %}"""

COMMAND = """\
{{ bos_token }}{% for m in messages %}<|START_OF_TURN_TOKEN|><|{{ 'CHATBOT' if m.role == 'assistant' else m.role | upper }}_TOKEN|>{{ m.content.strip() }}<|END_OF_TURN_TOKEN|>{% endfor %}
{%- if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>{% endif %}"""

HARMONY = """\
{%- macro system() -%}{{ 'Current date: ' + strftime_now('%Y-%m-%d') }}{%- endmacro -%}
{{- '<|start|>system<|message|>' }}{{ system() }}{{ '<|end|>' }}
{%- for m in messages -%}
{%- if m.role == 'assistant' and ('<|channel|>analysis<|message|>' in m.content or '<|channel|>final<|message|>' in m.content) -%}{{ raise_exception('channel tags do not belong into content') }}{%- endif -%}
{%- if m.role == 'assistant' -%}{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
{%- else -%}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}"""

TEMPLATES = {
    "qwen": QWEN,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "phi": PHI,
    "gemma": GEMMA,
    "glm": GLM,
    "deepseek": DEEPSEEK,
    "granite": GRANITE,
    "command": COMMAND,
    "harmony": HARMONY,
}

_SPECIAL = """
<s> </s> <|im_start|> <|im_end|> <|endoftext|> <|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|>
[INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] [THINK] [/THINK]
<|system|> <|user|> <|assistant|> <|tool|> <|/tool|> <|end|> <bos> <eos> <start_of_turn> <end_of_turn>
<start_of_image> [gMASK] <sop> <|observation|> <｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜>
<｜tool▁call▁begin｜> <｜tool▁sep｜> <｜tool▁call▁end｜> <｜tool▁output▁begin｜> <｜tool▁output▁end｜>
<|start_of_role|> <|end_of_role|> <|end_of_text|> <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> <|CHATBOT_TOKEN|>
<|USER_TOKEN|> <|SYSTEM_TOKEN|> <|START_THINKING|> <|END_THINKING|> <|start|> <|message|> <|channel|> <|return|>
"""
SPECIAL = _SPECIAL.split()
PLAIN = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
NAMED = {"bos_token": "<s>", "eos_token": "</s>"}


def chat_tokenizer(folder, *, special=SPECIAL, plain=PLAIN, **flags):
    """A byte-level tokenizer with all the special tokens of the templates, and some that are not special."""
    backend = Backend(models.BPE({c: i for i, c in enumerate(CHARACTER_OF_BYTE.values())}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    options = {"normalized": False, **flags}
    backend.add_special_tokens([AddedToken(text, special=True, **options) for text in special])
    backend.add_tokens([AddedToken(text, special=False, normalized=False) for text in plain])
    backend.save(str(folder / "tokenizer.json"))
    return Tokenizer.from_folder(folder)


def chat_template(text, **special_tokens):
    """A template, with texts for ``bos_token`` and ``eos_token``."""
    return ChatTemplate({"default": TemplateText(text, "T")}, special_tokens={**NAMED, **special_tokens})
