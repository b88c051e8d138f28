/** The dialogs: settings, and a key for the server. */

import { loadKey, loadSettings, saveKey, saveSettings } from "./storage.js";
import { wrongWithTools } from "./request.js";

const byId = (id) => document.getElementById(id);

/** The settings dialog; `settings.values` has what is set, `model` among it. */
export class Settings {
  values = loadSettings();
  #dialog = byId("settings");
  #fields = [...this.#dialog.querySelectorAll("[name]")];

  constructor() {
    byId("open-settings").addEventListener("click", () => this.#open());
    byId("reset-settings").addEventListener("click", () => this.#show({}));
    this.#dialog.querySelector("form").addEventListener("submit", (event) => {
      const wrong = wrongWithTools(byId("s-tools").value);
      byId("s-tools-error").textContent = wrong ?? "";
      if (wrong) event.preventDefault();
      else this.set(Object.fromEntries(this.#fields.map((field) => [field.name, field.value])));
    });
  }

  set(changes) {
    Object.assign(this.values, changes);
    saveSettings(this.values);
  }

  #open() {
    this.#show(this.values);
    this.#dialog.showModal();
  }

  #show(values) {
    for (const field of this.#fields) field.value = values[field.name] ?? "";
    byId("s-tools-error").textContent = "";
  }
}

/** The key dialog; `onKey` is called when there is another one. */
export class Key {
  value = loadKey();
  #dialog = byId("key");

  constructor(onKey) {
    this.onKey = onKey;
    byId("open-key").addEventListener("click", () => this.ask("Requests carry this key."));
    byId("forget-key").addEventListener("click", () => {
      this.#use("", false);
      this.#dialog.close();
    });
    this.#dialog.querySelector("form").addEventListener("submit", () => {
      this.#use(byId("key-value").value.trim(), byId("key-keep").checked);
    });
  }

  ask(reason) {
    if (this.#dialog.open) return;
    byId("key-reason").textContent = reason;
    byId("key-value").value = this.value;
    // A text field that a dialog itself gives the focus back to has no caret in Chromium, and takes no text.
    const before = document.activeElement;
    before?.blur();
    this.#dialog.addEventListener("close", () => before?.focus(), { once: true });
    this.#dialog.showModal();
  }

  #use(value, keep) {
    this.value = value;
    saveKey(value, keep);
    this.onKey();
  }
}
