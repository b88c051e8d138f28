/** The page of the API: every request of `openapi.json`, by group, with its fields, answers and a line to try it with. */

import { exampleOf, fieldOf, made, opened, prose, resolved, schemaOf } from "./docs-schema.js";

const at = (id) => document.getElementById(id);

async function begin() {
  let root;
  try {
    const answer = await fetch("openapi.json");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    root = await answer.json();
  } catch (error) {
    at("notice").textContent = `openapi.json cannot be read: ${error.message}`;
    return;
  }
  const { title, version, summary } = root.info;
  document.title = `${title} API`;
  at("title").textContent = `${title} ${version}`;
  at("about").textContent = summary ?? "";
  for (const [tag, requests] of byTag(root)) showGroup(root, tag, requests);
  at("find").addEventListener("input", find);
  addEventListener("hashchange", openNamed);
  openNamed();
}

function byTag(root) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(root.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), { path, method: method.toUpperCase(), operation }]);
    }
  }
  return groups;
}

function showGroup(root, tag, requests) {
  const id = `group-${tag}`;
  const heading = made("h2", "", tag);
  const section = made("section", "", heading, ...requests.map((request) => shown(root, request)));
  heading.id = id;
  section.setAttribute("aria-labelledby", id);
  const link = made("a", "", tag);
  link.href = `#${id}`;
  at("tags").append(link);
  at("groups").append(section);
}

function shown(root, request) {
  const { path, method, operation } = request;
  const title = made("span", "request", made("span", `method ${method}`, method), " ", made("code", "", path), " ", made("span", "quiet", operation.summary ?? ""));
  const details = opened(title, () => inside(root, request));
  details.id = operation.operationId;
  details.dataset.words = [method, path, operation.summary, operation.description].join(" ").toLowerCase();
  return details;
}

function inside(root, { path, method, operation }) {
  const content = [...prose(operation.description ?? "")];
  const parameters = (operation.parameters ?? []).map((parameter) => resolved(root, parameter));
  if (parameters.length) {
    const list = made("dl", "fields");
    for (const { name, schema, required, description, in: where } of parameters) {
      list.append(...fieldOf(root, name, schema ?? {}, { required, where, description: description ?? schema?.description }));
    }
    content.push(made("h3", "", "Parameters"), list);
  }
  const body = bodyOf(root, operation);
  if (body) content.push(made("h3", "", "Body"), ...schemaOf(root, body));
  content.push(made("h3", "", "Answers"), ...Object.entries(operation.responses).sort().map(([status, answer]) => answerOf(root, status, resolved(root, answer))));
  content.push(made("h3", "", "Try it"), copyable(commandOf(root, path, method, operation, body)));
  return content;
}

function bodyOf(root, operation) {
  return resolved(root, operation.requestBody).content?.["application/json"]?.schema;
}

function answerOf(root, status, { description, content = {} }) {
  return opened(`${status}: ${description}`, () =>
    Object.entries(content).flatMap(([type, { schema }]) => [made("p", "", made("code", "", type)), ...(schema ? schemaOf(root, schema) : [])]),
  );
}

/** A line for a shell. */
function commandOf(root, path, method, operation, body) {
  const address = new URL(`.${path}`, document.baseURI).href.replaceAll("%7B", "{").replaceAll("%7D", "}");
  const words = ["curl", ...(method === "GET" ? [] : ["-X", method]), quoted(address)];
  if (operation.security) words.push("-H", '"Authorization: Bearer $ONNXGEN_API_KEY"');
  if (body) words.push("-H", quoted("Content-Type: application/json"), "-d", quoted(JSON.stringify(exampleOf(root, body))));
  return words.join(" ");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function copyable(text) {
  const line = made("code", "", text);
  const button = made("button", "", "Copy");
  button.type = "button";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      at("notice").textContent = "Copied.";
    } catch {  // pages that come without TLS may not
      getSelection().selectAllChildren(line);
      at("notice").textContent = "Selected; copy it with the keyboard.";
    }
  });
  const block = made("pre", "", line);
  block.tabIndex = 0;
  return made("div", "try", block, button);
}

/** Show the requests that have all words. */
function find() {
  const words = at("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const section of at("groups").children) {
    const requests = [...section.querySelectorAll(":scope > details")];
    for (const request of requests) request.hidden = !words.every((word) => request.dataset.words.includes(word));
    section.hidden = requests.every((request) => request.hidden);
    count += requests.filter((request) => !request.hidden).length;
  }
  at("notice").textContent = words.length ? `${count} requests` : "";
}

/** Open the request that the address names. */
function openNamed() {
  const named = at(decodeURIComponent(location.hash.slice(1)));
  if (named instanceof HTMLDetailsElement) named.open = true;
  named?.scrollIntoView();
}

begin();
