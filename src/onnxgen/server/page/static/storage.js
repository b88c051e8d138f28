/** What stays in this browser: conversations, settings and, if the user says so, a key. */

const CHAT = "onnxgen.chat.";
const SETTINGS = "onnxgen.settings";
const KEY = "onnxgen.key";

/** All conversations, the one used last first. */
export function loadChats() {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(CHAT));
  const chats = names.map((name) => parsed(localStorage.getItem(name))).filter((chat) => chat?.messages && chat.id);
  return chats.sort((one, other) => other.usedAt - one.usedAt);
}

/** Keep a conversation; false if the browser has no space for it. */
export function saveChat(chat) {
  try {
    localStorage.setItem(CHAT + chat.id, JSON.stringify(chat));
    return true;
  } catch {
    return false;
  }
}

export function deleteChat(id) {
  localStorage.removeItem(CHAT + id);
}

/** Whether a change in another tab concerns conversations. */
export function concernsChats(event) {
  return event.key === null || event.key.startsWith(CHAT);
}

/** A conversation without messages. */
export function newChat() {
  const now = Date.now();
  const random = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0"));
  return { id: random.join(""), title: "New chat", usedAt: now, messages: [] };
}

/** Settings by the name of the API's field, as the texts that were typed. */
export function loadSettings() {
  return parsed(localStorage.getItem(SETTINGS)) ?? {};
}

export function saveSettings(settings) {
  try {
    localStorage.setItem(SETTINGS, JSON.stringify(settings));
  } catch {
    // They hold until the page is closed.
  }
}

export function loadKey() {
  return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? "";
}

/** Use a key in this tab, and in all later ones if `keep`. */
export function saveKey(key, keep) {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
  if (key) (keep ? localStorage : sessionStorage).setItem(KEY, key);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
