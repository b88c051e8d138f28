/**
 * The part of Markdown that models write, as elements of the page.
 *
 * Text becomes text nodes and nothing else: there is no way from an answer to HTML. Images are never fetched, and
 * links lead to http, https and mailto only.
 */

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+)(?=\S)/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const MAX_DEPTH = 8;

const INLINE = new RegExp(
  [
    "(?<ticks>`{1,3})(?!`)(?<code>.{1,4000}?)(?<!`)\\k<ticks>(?!`)",
    "\\*\\*(?=\\S)(?<strong>.{1,4000}?)(?<=\\S)\\*\\*(?!\\*)",
    "(?<!\\w)__(?=\\S)(?<strong2>.{1,4000}?)(?<=\\S)__(?!\\w)",
    "(?<!\\w)\\*(?=[^\\s*])(?<em>.{1,4000}?)(?<=[^\\s*])\\*(?![\\w*])",
    "(?<!\\w)_(?=[^\\s_])(?<em2>.{1,4000}?)(?<=[^\\s_])_(?!\\w)",
    "~~(?=\\S)(?<del>.{1,4000}?)(?<=\\S)~~",
    "!?\\[(?<label>[^\\]\\n]{1,1000})\\]\\((?<target>[^\\s()]{1,2000})\\)",
    "(?<url>https?://[^\\s<>\"'`)\\]]{1,2000}[^\\s<>\"'`)\\].,;:!?])",
    "\\\\(?<escaped>[\\\\`*_{}\\[\\]()#+.!~|>-])",
  ].join("|"),
  "gs",
);

/**
 * Show `text` in `container`. Blocks that are there already and did not change stay as they are, so that a text that
 * grows costs what is new, and a selection in it survives.
 */
export function render(container, text) {
  const blocks = blocksOf(text.split("\n"));
  const shown = container.shownBlocks ?? [];
  let same = 0;
  while (same < blocks.length && same < shown.length && blocks[same].raw === shown[same]) same += 1;
  if (same === blocks.length - 1 && same === shown.length - 1 && growCode(container.lastChild, blocks[same])) same += 1;
  while (container.childNodes.length > same) container.lastChild.remove();
  for (const block of blocks.slice(same)) container.append(elementOf(block, 0));
  container.shownBlocks = blocks.map((block) => block.raw);
}

/** Blocks of lines: `{kind, raw, lines, ...}`. */
export function blocksOf(lines) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === "") {
      at += 1;
      continue;
    }
    const [block, end] = blockAt(lines, at);
    block.lines ??= lines.slice(at, end);
    block.raw = lines.slice(at, end).join("\n");
    blocks.push(block);
    at = end;
  }
  return blocks;
}

function blockAt(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) {
    const closing = (other) => other.trim().startsWith(fence[1]) && /^(`+|~+)$/.test(other.trim());
    let end = at + 1;
    while (end < lines.length && !closing(lines[end])) end += 1;
    return [{ kind: "code", language: fence[2], lines: lines.slice(at + 1, end) }, Math.min(end + 1, lines.length)];
  }
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: heading[2] }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (QUOTE.test(line)) {
    const end = endOf(lines, at, (other) => QUOTE.test(other));
    return [{ kind: "quote", lines: lines.slice(at, end).map((other) => other.replace(QUOTE, "")) }, end];
  }
  if (ITEM.test(line)) return [{ kind: "list" }, endOfList(lines, at)];
  if (line.includes("|") && TABLE_RULE.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) {
    return [{ kind: "table" }, endOf(lines, at, (other) => other.includes("|"))];
  }
  const begins = (other) => [FENCE, HEADING, QUOTE, ITEM].some((start) => start.test(other));
  return [{ kind: "text" }, endOf(lines, at + 1, (other) => other.trim() !== "" && !begins(other))];
}

function endOf(lines, at, belongs) {
  while (at < lines.length && belongs(lines[at])) at += 1;
  return at;
}

function endOfList(lines, at) {
  const [, indent, marker] = ITEM.exec(lines[at]);
  let end = at + 1;
  for (let i = end; i < lines.length; i += 1) {
    if (lines[i].trim() === "") continue;
    const item = ITEM.exec(lines[i]);
    const beside = item && item[1].length <= indent.length + 1;
    if (beside && isNumber(item[2]) !== isNumber(marker)) break;
    const goesOn = lines[i - 1].trim() !== "" && ![FENCE, HEADING, QUOTE, RULE].some((start) => start.test(lines[i]));
    if (!item && !/^\s{2,}/.test(lines[i]) && !goesOn) break;
    end = i + 1;
  }
  return end;
}

function isNumber(marker) {
  return /\d/.test(marker);
}

function elementOf(block, depth) {
  if (depth > MAX_DEPTH) return element("p", block.raw);
  switch (block.kind) {
    case "code":
      return codeOf(block.lines.join("\n"), block.language);
    case "heading":
      return withInline(element(`h${Math.min(block.level + 2, 6)}`), block.text);
    case "rule":
      return element("hr");
    case "quote":
      return withBlocks(element("blockquote"), block.lines, depth);
    case "list":
      return listOf(block.lines, depth);
    case "table":
      return tableOf(block.lines);
    default:
      return withInline(element("p"), block.lines.join("\n"));
  }
}

/** Code with its language and a button that copies it. */
export function codeOf(text, language) {
  const code = element("code", text);
  const figure = element("figure");
  figure.className = "code";
  const caption = element("figcaption");
  caption.append(element("span", language || "text"));
  if (navigator.clipboard) {
    const copy = element("button", "Copy");
    copy.type = "button";
    copy.className = "small";
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Copied";
    });
    caption.append(copy);
  }
  const pre = element("pre");
  pre.tabIndex = 0; // long lines scroll, also by keyboard
  pre.append(code);
  figure.append(caption, pre);
  return figure;
}

/** Add to code that is shown what came since; false if it is something else. */
function growCode(shown, block) {
  const code = block.kind === "code" && shown.matches("figure.code") && shown.querySelector("code");
  if (!code || shown.querySelector("figcaption span").textContent !== (block.language || "text")) return false;
  const text = block.lines.join("\n");
  const before = code.textContent;
  if (!text.startsWith(before)) return false;
  if (!code.firstChild) code.append(text);
  else code.firstChild.appendData(text.slice(before.length));
  return true;
}

function listOf(lines, depth) {
  const [, indent, marker] = ITEM.exec(lines[0]);
  const list = element(isNumber(marker) ? "ol" : "ul");
  if (isNumber(marker)) list.start = Number.parseInt(marker, 10);
  const items = [];
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && (found[1].length <= indent.length + 1 || items.length === 0)) {
      items.push({ width: found[0].length, lines: [line.slice(found[0].length)] });
    } else {
      const { width, lines: content } = items[items.length - 1];
      content.push(line.slice(Math.min(width, line.length - line.trimStart().length)));
    }
  }
  for (const item of items) list.append(withBlocks(element("li"), item.lines, depth));
  return list;
}

function tableOf(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const row = (line, kind) => {
    const found = element("tr");
    for (const cell of cells(line)) found.append(withInline(element(kind), cell));
    return found;
  };
  const table = element("table");
  const head = element("thead");
  head.append(row(lines[0], "th"));
  const body = element("tbody");
  for (const line of lines.slice(2)) body.append(row(line, "td"));
  table.append(head, body);
  return table;
}

function withBlocks(parent, lines, depth) {
  const blocks = blocksOf(lines);
  blocks.forEach((block, number) => {
    const tight = parent.tagName === "LI" && block.kind === "text" && number === 0;
    if (tight) withInline(parent, block.lines.join("\n"));
    else parent.append(elementOf(block, depth + 1));
  });
  return parent;
}

function withInline(parent, text, depth = 0) {
  let end = 0;
  for (const found of depth > MAX_DEPTH ? [] : text.matchAll(INLINE)) {
    parent.append(text.slice(end, found.index));
    parent.append(inlineOf(found, depth + 1));
    end = found.index + found[0].length;
  }
  parent.append(text.slice(end));
  return parent;
}

function inlineOf(found, depth) {
  const { code, strong, strong2, em, em2, del, label, target, url, escaped } = found.groups;
  if (code !== undefined) return element("code", code);
  if (strong ?? strong2) return withInline(element("strong"), strong ?? strong2, depth);
  if (em ?? em2) return withInline(element("em"), em ?? em2, depth);
  if (del) return withInline(element("del"), del, depth);
  if (url) return linkTo(url, element("span", url)) ?? url;
  if (label) return linkTo(target, withInline(element("span"), label, depth)) ?? found[0];
  return escaped;
}

function linkTo(target, label) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return null;
  const link = element("a");
  link.href = target;
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow";
  link.append(...label.childNodes);
  return link;
}

function element(name, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return made;
}
