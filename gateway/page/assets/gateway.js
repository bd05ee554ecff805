/* Requests to the gateway: one address is polled while the page can be seen, others are asked once. */

const TOKEN = "stateplan-token";
const EVERY = 1000;
const LATEST = 5000;

/** What a request came to, when it was not what was asked for. */
export class Problem extends Error {
  constructor(status, facts) {
    super(facts.text ?? `the gateway answered ${status}`);
    this.status = status;
    this.facts = { text: this.message, ...facts };
  }
}

const headers = (more) => {
  const token = sessionStorage.getItem(TOKEN);
  return { ...more, ...(token ? { authorization: `Bearer ${token}` } : {}) };
};

const read = async (response) => {
  const data = await response.json().catch(() => ({}));
  if (response.ok) return data;
  throw new Problem(response.status, data.error ?? { text: data.errors?.at(-1) });
};

export const setToken = (token) => sessionStorage.setItem(TOKEN, token);

export const get = async (path) => read(await fetch(path, { headers: headers({}), cache: "no-store" }));

export const post = async (path, body = {}) => {
  const head = headers({ "content-type": "application/json", "x-stateplan-page": "1" });
  return read(await fetch(path, { method: "POST", headers: head, body: JSON.stringify(body), cache: "no-store" }));
};

/** How far the clock of the gateway is ahead of the browser's, ms. */
let ahead = 0;
export const now = () => Date.now() + ahead;

/**
 * Polls a path about every second while the page can be seen. A gateway that is away is tried again and again.
 *
 * data(found) is called for every new answer, tick() for every other one, refused(problem) for an answer that is an
 * error, link(state) with "connected", "reconnecting" or "paused". Returns { stop(), now() }; now() asks at once.
 */
export const poll = (path, { data, tick, refused, link }) => {
  let tag = null;
  let timer = null;
  let failures = 0;
  let stopped = false;
  let asking = false;
  let again = false;

  const wait = (ms) => {
    clearTimeout(timer);
    if (!stopped && !document.hidden) timer = setTimeout(ask, ms);
  };

  const answered = async (response) => {
    const date = Date.parse(response.headers.get("date") ?? "");
    if (!Number.isNaN(date) && Math.abs(date - now()) > 2000) ahead = date - Date.now();
    failures = 0;
    link("connected");
    if (response.status === 304) tick();
    else {
      const found = await read(response);
      tag = response.headers.get("etag");
      if (!stopped) data(found);
    }
  };

  const ask = async () => {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    try {
      const head = headers(tag ? { "if-none-match": tag } : {});
      const response = await fetch(path, { headers: head, cache: "no-store", signal: AbortSignal.timeout(20000) });
      if (!stopped) await answered(response);
    } catch (error) {
      if (stopped) return;
      if (error instanceof Problem) {
        tag = null;
        refused(error);
      } else if (error instanceof TypeError || error.name === "TimeoutError" || error.name === "AbortError") {
        failures += 1;
        link("reconnecting");
      } else throw error;
    } finally {
      asking = false;
      wait(again ? 0 : failures ? Math.min(LATEST, EVERY * 2 ** (failures - 1)) : EVERY);
      again = false;
    }
  };

  const seen = () => {
    if (document.hidden) {
      clearTimeout(timer);
      link("paused");
    } else ask();
  };
  document.addEventListener("visibilitychange", seen);
  ask();
  return {
    now: ask,
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    },
  };
};
