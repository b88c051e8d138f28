/** Messages as elements. Knows nothing of the server: what is done to a message is told to `actions`. */

import { codeOf, render } from "./markdown.js";

const NAMES = { user: "You", assistant: "Model", tool: "Tool result" };

/**
 * One message of a conversation.
 *
 * `actions`: `edit(message, text)`, `regenerate(message)`, `answerCalls(message, results)`.
 */
export class MessageView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.element = made("li", `message ${message.role}`);
    this.title = made("h2", "", NAMES[message.role] ?? message.role);
    this.thought = made("details");
    this.thought.append(made("summary"), made("div", "thought"));
    this.body = made("div", "body");
    this.calls = made("div", "calls");
    this.error = made("p", "error");
    this.error.setAttribute("role", "alert");
    this.foot = made("div", "foot");
    this.element.append(this.title, this.thought, this.body, this.calls, this.error, this.foot);
  }

  /** Show the message as it is now. */
  update({ answering = false, last = false } = {}) {
    const { message } = this;
    this.element.classList.toggle("answering", answering);
    this.element.setAttribute("aria-busy", String(answering));
    if (message.role === "assistant") render(this.body, message.content);
    else if (this.body.textContent !== message.content) this.body.textContent = message.content;
    this.#showThought(answering);
    this.error.textContent = message.error ?? "";
    if (!answering) {
      this.#showCalls(last);
      this.#showFoot(last);
    }
  }

  #showThought(answering) {
    const { reasoning, content } = this.message;
    this.thought.hidden = !reasoning;
    if (!reasoning) return;
    const [summary, text] = this.thought.children;
    summary.textContent = answering && !content ? "Thinking…" : "Reasoning";
    if (text.textContent !== reasoning) text.textContent = reasoning;
  }

  #showCalls(last) {
    const calls = this.message.tool_calls ?? [];
    const open = last && calls.length > 0;
    this.calls.replaceChildren(...calls.map((call, number) => this.#callOf(call, number, open)));
    if (!open) return;
    const send = button("Send results", () => {
      const fields = [...this.calls.querySelectorAll("textarea")];
      this.actions.answerCalls(this.message, fields.map((field) => field.value));
    });
    send.classList.add("primary");
    this.calls.append(send);
  }

  #callOf(call, number, open) {
    const card = made("div", "call");
    const name = made("p");
    name.append("Calls ", made("code", "", call.function.name));
    card.append(name, codeOf(pretty(call.function.arguments), "arguments"));
    if (open) {
      const field = made("textarea");
      field.id = `result-${number}`;
      field.rows = 2;
      const label = made("label", "", `Result of ${call.function.name}`);
      label.htmlFor = field.id;
      card.append(label, field);
    }
    return card;
  }

  #showFoot(last) {
    const { message } = this;
    const buttons = [];
    if (message.role === "user") buttons.push(button("Edit", () => this.#edit()));
    if (message.role === "assistant" && message.content && navigator.clipboard) {
      buttons.push(button("Copy", () => navigator.clipboard.writeText(message.content)));
    }
    if (message.role === "assistant" && last) {
      const text = message.error ? "Try again" : "Regenerate";
      buttons.push(button(text, () => this.actions.regenerate(message)));
    }
    this.foot.replaceChildren(...buttons, made("span", "quiet", footNotes(message)));
  }

  #edit() {
    const form = made("form", "edit");
    const field = made("textarea");
    field.value = this.message.content;
    field.setAttribute("aria-label", "Edit the message");
    const send = button("Send", () => {});
    send.type = "submit";
    const close = () => {
      form.remove();
      this.body.hidden = this.foot.hidden = false;
      this.foot.querySelector("button")?.focus();
    };
    form.append(field, send, button("Cancel", close));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value.trim()) this.actions.edit(this.message, field.value);
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
    });
    this.body.hidden = this.foot.hidden = true;
    this.body.after(form);
    field.focus();
  }
}

/** What is said below an answer: how it ended, how long it is and how fast it came. */
export function footNotes({ stopped, finish, stats }) {
  const notes = [];
  if (stopped) notes.push("stopped");
  if (finish === "length") notes.push("ended at the limit of tokens");
  if (stats) notes.push(rateNotes(stats));
  return notes.join(" · ");
}

/** Tokens, rate and time to the first token, of what is known of them. */
export function rateNotes({ tokens, rate, firstMs, promptTokens, cachedTokens, reasoningTokens }) {
  const notes = [];
  if (tokens !== undefined) notes.push(`${tokens} token${tokens === 1 ? "" : "s"}`);
  if (reasoningTokens) notes.push(`${reasoningTokens} of them reasoning`);
  if (rate) notes.push(`${rate.toFixed(1)} tokens/s`);
  if (firstMs !== undefined) notes.push(`first after ${Math.round(firstMs)} ms`);
  if (promptTokens) notes.push(`prompt ${promptTokens}${cachedTokens ? ` (${cachedTokens} cached)` : ""}`);
  return notes.join(" · ");
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function button(text, act) {
  const found = made("button", "small", text);
  found.type = "button";
  found.addEventListener("click", act);
  return found;
}

function made(name, className = "", text = "") {
  const found = document.createElement(name);
  if (className) found.className = className;
  if (text) found.textContent = text;
  return found;
}
