/** The page: which conversation is shown, what is sent, and what happens to answers. */

import { listModels, whatIsMissing } from "./api.js";
import { Answering } from "./answering.js";
import { Key, Settings } from "./dialogs.js";
import { bodyOf } from "./request.js";
import { concernsChats, deleteChat, loadChats, newChat, saveChat } from "./storage.js";
import { MessageView, rateNotes } from "./view.js";

const byId = (id) => document.getElementById(id);
const prompt = byId("prompt");
const scroll = byId("scroll");

const settings = new Settings();
const key = new Key(() => showModels());
const answering = new Map(); // by the id of the conversation, which is `running.chat`
let chat = loadChats()[0] ?? newChat();
let views = [];

const actions = {
  edit(message, text) {
    cut(message);
    say(text);
  },
  regenerate(message) {
    cut(message);
    answer(chat);
  },
  answerCalls(message, results) {
    message.tool_calls.forEach((call, number) => {
      chat.messages.push({ role: "tool", tool_call_id: call.id, content: results[number] });
    });
    answer(chat);
  },
};

function say(text) {
  if (!chat.messages.length) chat.title = text.trim().split("\n")[0].slice(0, 60);
  chat.messages.push({ role: "user", content: text });
  answer(chat);
}

/** Forget `message` and all after it. */
function cut(message) {
  answering.get(chat.id)?.stop();
  chat.messages.length = chat.messages.indexOf(message);
}

async function answer(asked) {
  const body = bodyOf(asked.messages, settings.values);
  const message = { role: "assistant", content: "" };
  const running = new Answering(message);
  running.chat = asked;
  asked.messages.push(message);
  asked.usedAt = Date.now();
  answering.set(asked.id, running);
  keep(asked);
  showChats();
  showMessages();
  announce("The model answers.");
  const problem = await running.run(body, { key: key.value, onPiece: () => grow(asked, running) });
  if (answering.get(asked.id) === running) answering.delete(asked.id);
  keep(asked);
  if (asked.id === chat.id) showMessages();
  announce(message.error ? "" : `${message.stopped ? "Stopped" : "Answer"}: ${message.content.slice(0, 1000)}`);
  if (problem?.status === 401) key.ask(problem.message);
}

/** Show what has come, once per frame; keep it once per second. */
function grow(asked, running) {
  if (Date.now() - asked.usedAt > 1000) {
    asked.usedAt = Date.now();
    keep(asked);
  }
  if (asked.id !== chat.id || running.drawing) return;
  running.drawing = true;
  requestAnimationFrame(() => {
    running.drawing = false;
    if (asked.id !== chat.id || answering.get(chat.id) !== running) return;
    atBottom(() => views.at(-1)?.update({ answering: true }));
    byId("rate").textContent = rateNotes(running.stats);
  });
}

function keep(asked) {
  if (!saveChat(asked)) notice("This browser has no space left: this is lost when the page is closed. Delete old conversations.");
}

function showMessages() {
  const isAnswering = answering.has(chat.id);
  const { messages } = chat;
  views = messages.map((message) => views.find((view) => view.message === message) ?? new MessageView(message, actions));
  atBottom(() => {
    byId("messages").replaceChildren(...views.map((view) => view.element));
    views.forEach((view, number) => {
      const last = number === messages.length - 1;
      view.update({ answering: last && isAnswering, last });
    });
  });
  byId("stop").hidden = !isAnswering;
  byId("send").hidden = isAnswering;
  byId("rate").textContent = "";
  if (document.activeElement === document.body) prompt.focus();
}

function showChats() {
  const chats = loadChats();
  if (!chats.some((other) => other.id === chat.id)) chats.unshift(chat);
  byId("chats").replaceChildren(...chats.map(chatEntry));
  document.title = chat.messages.length ? `${chat.title} · onnxgen` : "onnxgen";
}

function chatEntry(other) {
  const entry = document.createElement("li");
  const open = document.createElement("button");
  open.type = "button";
  open.className = "title";
  open.textContent = other.title;
  if (other.id === chat.id) open.setAttribute("aria-current", "true");
  open.addEventListener("click", () => show(answering.get(other.id)?.chat ?? other));
  const remove = document.createElement("button");
  remove.type = "button";
  remove.className = "small";
  remove.textContent = "✕";
  remove.setAttribute("aria-label", `Delete the conversation ${other.title}`);
  remove.addEventListener("click", () => forget(other));
  entry.append(open, remove);
  return entry;
}

function show(other) {
  chat = other;
  closeSide();
  showChats();
  showMessages();
  scroll.scrollTop = scroll.scrollHeight;
  prompt.focus();
}

function forget(other) {
  if (!confirm(`Delete the conversation “${other.title}”?`)) return;
  answering.get(other.id)?.stop();
  answering.delete(other.id);
  deleteChat(other.id);
  if (other.id === chat.id) show(loadChats()[0] ?? newChat());
  else showChats();
}

/** Run `change`, and stay at the end of the conversation if that was in sight. */
function atBottom(change) {
  const follows = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  change();
  if (follows) scroll.scrollTop = scroll.scrollHeight;
}

function announce(text) {
  byId("announcer").textContent = text;
}

function notice(text) {
  byId("notice").hidden = !text;
  byId("notice").textContent = text ?? "";
}

async function waitForServer() {
  for (;;) {
    const missing = await whatIsMissing();
    notice(missing);
    if (missing === null) return;
    await new Promise((done) => setTimeout(done, 2000));
  }
}

async function showModels() {
  const select = byId("model");
  try {
    const models = await listModels(key.value);
    if (!models.includes(settings.values.model)) settings.set({ model: models[0] });
    select.replaceChildren(...models.map((id) => new Option(id, id, false, id === settings.values.model)));
    notice(models.length ? null : "The server has no model that chats.");
  } catch (problem) {
    notice(problem.message);
    if (problem.status === 401) key.ask(problem.message);
  }
}

byId("model").addEventListener("change", (event) => settings.set({ model: event.target.value }));

function fitPrompt() {
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}

function closeSide() {
  byId("side").classList.remove("open");
  byId("side-toggle").setAttribute("aria-expanded", "false");
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = prompt.value;
  if (!text.trim() || answering.has(chat.id)) return;
  prompt.value = "";
  fitPrompt();
  prompt.focus();
  say(text);
});

prompt.addEventListener("input", fitPrompt);
prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("composer").requestSubmit();
});

byId("stop").addEventListener("click", () => {
  answering.get(chat.id)?.stop();
  prompt.focus();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  closeSide();
  answering.get(chat.id)?.stop();
});

byId("new-chat").addEventListener("click", () => show(newChat()));
byId("side-toggle").addEventListener("click", () => {
  const open = byId("side").classList.toggle("open");
  byId("side-toggle").setAttribute("aria-expanded", String(open));
});

addEventListener("storage", (event) => concernsChats(event) && showChats());
addEventListener("pagehide", () => {
  for (const running of answering.values()) {
    running.message.stopped = true;
    saveChat(running.chat);
  }
});

showChats();
showMessages();
scroll.scrollTop = scroll.scrollHeight;
prompt.focus();
waitForServer().then(showModels);
