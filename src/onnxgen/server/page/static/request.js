/** What is asked of the server: a conversation and settings as the body of a request. Pure functions. */

const NUMBERS = [
  "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_completion_tokens", "seed",
];

/** The body of a request for the next answer of `messages`. */
export function bodyOf(messages, settings) {
  const body = { messages: sentMessages(messages, settings.system) };
  if (settings.model) body.model = settings.model;
  for (const name of NUMBERS) {
    const text = (settings[name] ?? "").trim();
    if (text !== "" && Number.isFinite(Number(text))) body[name] = Number(text);
  }
  if (settings.reasoning_effort) body.reasoning_effort = settings.reasoning_effort;
  const tools = settings.tools?.trim() ? JSON.parse(settings.tools) : [];
  if (tools.length) body.tools = tools;
  return body;
}

/** What is wrong with a text of tools; null if nothing is. */
export function wrongWithTools(text) {
  if (!text.trim()) return null;
  try {
    return Array.isArray(JSON.parse(text)) ? null : "Tools are a list: [ … ].";
  } catch (error) {
    return `Tools are no JSON: ${error.message}`;
  }
}

/**
 * Messages as the API takes them. Answers that failed or say nothing are left out, calls without results too, and
 * questions that then follow each other become one: templates want roles to alternate.
 */
export function sentMessages(messages, system = "") {
  const sent = system.trim() ? [{ role: "system", content: system }] : [];
  const results = new Set(messages.filter((m) => m.role === "tool").map((m) => m.tool_call_id));
  for (const message of messages) {
    const last = sent[sent.length - 1];
    if (message.role === "user" && last?.role === "user") last.content += `\n\n${message.content}`;
    else if (message.role === "user") sent.push({ role: "user", content: message.content });
    else if (message.role === "tool") {
      sent.push({ role: "tool", tool_call_id: message.tool_call_id, content: message.content });
    } else {
      const calls = (message.tool_calls ?? []).filter((call) => results.has(call.id));
      if (!message.content && !calls.length) continue;
      sent.push({ role: "assistant", content: message.content, ...(calls.length && { tool_calls: calls }) });
    }
  }
  return sent;
}

/** Add what an event of a stream brings to an answer. */
export function addDelta(message, event) {
  const [choice] = event.choices ?? [];
  const delta = choice?.delta ?? {};
  if (delta.content) message.content += delta.content;
  const thought = delta.reasoning_content ?? delta.reasoning;
  if (thought) message.reasoning = (message.reasoning ?? "") + thought;
  for (const part of delta.tool_calls ?? []) {
    message.tool_calls ??= [];
    const call = (message.tool_calls[part.index ?? 0] ??= {
      id: "", type: "function", function: { name: "", arguments: "" },
    });
    if (part.id) call.id = part.id;
    call.function.name += part.function?.name ?? "";
    call.function.arguments += part.function?.arguments ?? "";
  }
  if (choice?.finish_reason) message.finish = choice.finish_reason;
  return Boolean(delta.content || thought || delta.tool_calls);
}
