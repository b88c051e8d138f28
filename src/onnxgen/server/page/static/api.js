/** The server's API: models, health, and streamed chat. */

/** What the server, or the way to it, said instead of an answer. */
export class Problem extends Error {
  constructor(message, { status = 0, code = null, retryAfter = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** Ids of the models that chat; `key` may be empty. */
export async function listModels(key) {
  const answer = await ask("v1/models", { headers: headersWith(key), cache: "no-store" });
  const { data } = await answer.json();
  return data.filter((model) => model.task !== "embed").map((model) => model.id);
}

/** Null when the server is ready; otherwise what it waits for. */
export async function whatIsMissing() {
  let answer;
  try {
    answer = await fetch("health", { cache: "no-store" });
  } catch {
    return "The server cannot be reached; trying again.";
  }
  if (answer.ok) return null;
  const { status, reason } = await answer.json().catch(() => ({}));
  if (status === "loading") return "The model is being loaded.";
  return `The server is not ready: ${reason ?? status ?? answer.status}`;
}

/**
 * The events of a streamed chat completion, each as soon as it is there.
 * Ends quietly at `[DONE]`; throws a `Problem` for everything that ends it earlier, and what `signal` was aborted with.
 */
export async function* streamChat(body, { key, signal }) {
  const answer = await ask("v1/chat/completions", {
    method: "POST",
    headers: { ...headersWith(key), "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  const events = eventsOf(answer.body);
  try {
    for await (const data of events) {
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new Problem(event.error.message, { code: event.error.code });
      yield event;
    }
  } catch (error) {
    if (signal.aborted || error instanceof Problem) throw error;
    throw new Problem(`The connection was lost: ${error.message}`);
  }
  throw new Problem("The connection ended before the answer did.");
}

/** The data of each server-sent event of a body of bytes. */
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      // A carriage return at the end may be half of a line's end.
      const lines = (pending + value).split(/\r\n|\n|\r(?!$)/);
      pending = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (data.length) yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem("The server cannot be reached.");
  }
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  throw new Problem(error?.message ?? `The server answered ${answer.status} ${answer.statusText}.`, {
    status: answer.status,
    code: error?.code ?? null,
    retryAfter: answer.headers.get("Retry-After"),
  });
}

function headersWith(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}
