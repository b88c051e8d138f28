/** Schemas of an OpenAPI document as elements, and examples of what they allow. */

/** An element with a class and what is in it. */
export function made(tag, name = "", ...content) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...content);
  return element;
}

/** Text whose `code` is marked as in Markdown; an empty line begins a new paragraph. */
export function prose(text) {
  return text.split(/\n\s*\n/).map((paragraph) =>
    made("p", "", ...paragraph.split(/`([^`]+)`/).map((part, n) => (n % 2 ? made("code", "", part) : part))),
  );
}

/** What a `$ref` refers to; anything else is what it is. */
export function resolved(root, value) {
  let found = value;
  while (found?.$ref) {
    found = found.$ref.slice(2).split("/").reduce((at, key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root);
  }
  return found ?? {};
}

/** What a schema allows, in a few words. */
export function typeOf(root, schema) {
  if (schema?.$ref) return schema.$ref.split("/").at(-1);
  if (schema?.const !== undefined) return JSON.stringify(schema.const);
  if (schema?.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const kinds = schema?.anyOf ?? schema?.oneOf;
  if (kinds) return [...new Set(kinds.map((kind) => typeOf(root, kind)))].join(" | ");
  if (schema?.type === "array") {
    const items = schema.items ? typeOf(root, schema.items) : "any";
    return items.includes(" | ") ? `(${items})[]` : `${items}[]`;
  }
  if (Array.isArray(schema?.type)) return schema.type.join(" | ");
  return schema?.type ?? "any";
}

const LIMITS = { minimum: "≥", exclusiveMinimum: ">", maximum: "≤", minItems: "entries ≥", maxItems: "entries ≤", minLength: "characters ≥", maxLength: "characters ≤" };

function limitsOf(schema) {
  const all = [schema, ...(schema.anyOf ?? schema.oneOf ?? [])];
  const told = all.flatMap((one) => Object.entries(LIMITS).filter(([name]) => name in one).map(([name, sign]) => `${sign} ${one[name]}`));
  if (schema.default !== undefined && schema.default !== null) told.push(`default ${JSON.stringify(schema.default)}`);
  return told.join(", ");
}

/** Schemas of objects that a schema allows, itself or within. */
function objectsIn(root, schema) {
  const found = resolved(root, schema);
  if (found.properties) return [{ name: schema.$ref ? typeOf(root, schema) : found.title ?? kindOf(root, found), schema: found }];
  const inner = [...(found.anyOf ?? found.oneOf ?? []), ...(found.items ? [found.items] : [])];
  if (typeof found.additionalProperties === "object") inner.push(found.additionalProperties);
  return inner.flatMap((one) => objectsIn(root, one));
}

/** What tells an object without a name from others, such as `role: "tool"`. */
function kindOf(root, schema) {
  const telling = Object.entries(schema.properties).find(([, field]) => field.const !== undefined || field.enum);
  return telling ? `${telling[0]}: ${typeOf(root, telling[1])}` : "object";
}

/** The fields of an object; what is inside of them is made when it is opened, for schemas may refer to themselves. */
export function fieldsOf(root, schema) {
  const list = made("dl", "fields");
  const required = new Set(schema.required ?? []);
  const entries = Object.entries(schema.properties ?? {});
  entries.sort(([a], [b]) => required.has(b) - required.has(a));
  for (const [name, field] of entries) {
    list.append(...fieldOf(root, name, field, { required: required.has(name) }));
  }
  return list;
}

/** One field, or parameter: its name, type and description. */
export function fieldOf(root, name, schema, { required = false, where = "", description = schema.description } = {}) {
  const term = made("dt", "", made("code", "name", name), " ", made("span", "type", typeOf(root, schema)));
  for (const word of [where, required ? "required" : "", limitsOf(resolved(root, schema))]) {
    if (word) term.append(" ", made("span", word === "required" ? "required" : "quiet", word));
  }
  const text = made("dd", "", ...prose(description ?? ""));
  for (const { name: inner, schema: object } of objectsIn(root, schema)) text.append(opened(inner, () => [fieldsOf(root, object)]));
  return [term, text];
}

/** Something to open, made when it is opened first. */
export function opened(title, make) {
  const details = made("details", "", made("summary", "", title));
  details.addEventListener("toggle", () => details.open && details.children.length === 1 && details.append(...make()));
  return details;
}

/** A schema: the fields of its objects, or its type. */
export function schemaOf(root, schema) {
  const objects = objectsIn(root, schema);
  const [only] = objects;
  if (objects.length === 1) return [made("p", "type", typeOf(root, schema)), ...prose(only.schema.description ?? ""), fieldsOf(root, only.schema)];
  return [made("p", "type", typeOf(root, schema)), ...objects.map(({ name, schema: one }) => opened(name, () => [fieldsOf(root, one)]))];
}

/** Something that a schema allows: its own example, or what is required. */
export function exampleOf(root, schema, depth = 0) {
  const found = resolved(root, schema);
  if (found.examples?.length) return found.examples[0];
  if (found.const !== undefined) return found.const;
  if (found.enum) return found.enum[0];
  const kinds = found.anyOf ?? found.oneOf;
  if (kinds) return exampleOf(root, kinds[0], depth);
  switch (Array.isArray(found.type) ? found.type[0] : found.type) {
    case "string": return "text";
    case "integer": case "number": return found.minimum ?? 1;
    case "boolean": return true;
    case "array": return depth < 4 && found.items ? [exampleOf(root, found.items, depth + 1)] : [];
    case "object": return Object.fromEntries((found.required ?? []).map((name) => [name, exampleOf(root, found.properties?.[name] ?? {}, depth + 1)]));
    default: return null;
  }
}
