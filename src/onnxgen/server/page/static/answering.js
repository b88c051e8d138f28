/** One answer under way: it grows from the stream until it ends, fails or is stopped. */

import { streamChat } from "./api.js";
import { addDelta } from "./request.js";

export class Answering {
  #abort = new AbortController();
  #asked = performance.now();
  #first = null;
  #last = null;
  #pieces = 0;

  constructor(message) {
    this.message = message;
  }

  stop() {
    this.#abort.abort();
  }

  /**
   * Fill the message; `onPiece` is called after each event. Never throws: what goes wrong is the message's `error`,
   * and is given back so that the page can ask for a key.
   */
  async run(body, { key, onPiece }) {
    const { message } = this;
    try {
      for await (const event of streamChat(body, { key, signal: this.#abort.signal })) {
        if (addDelta(message, event)) this.#count();
        this.#readUsage(event);
        onPiece();
      }
      return null;
    } catch (problem) {
      if (this.#abort.signal.aborted) {
        message.stopped = true;
        return null;
      }
      const wait = problem.retryAfter ? ` (again in ${problem.retryAfter} s)` : "";
      message.error = problem.message + wait;
      return problem;
    } finally {
      if (this.#pieces) message.stats = this.stats;
    }
  }

  /** As far as it is known: pieces stand for tokens until the server says how many there are. */
  get stats() {
    const { usage = {}, timings = {} } = this;
    const tokens = usage.completion_tokens ?? this.#pieces;
    const seconds = (this.#last - this.#first) / 1000;
    return {
      tokens,
      rate: timings.predicted_per_second ?? (seconds > 0 ? (tokens - 1) / seconds : undefined),
      firstMs: this.#first === null ? undefined : this.#first - this.#asked,
      promptTokens: usage.prompt_tokens,
      cachedTokens: usage.prompt_tokens_details?.cached_tokens,
      reasoningTokens: usage.completion_tokens_details?.reasoning_tokens,
    };
  }

  #count() {
    this.#last = performance.now();
    this.#first ??= this.#last;
    this.#pieces += 1;
  }

  #readUsage({ usage, timings }) {
    if (usage) this.usage = usage;
    if (timings) this.timings = timings;
  }
}
