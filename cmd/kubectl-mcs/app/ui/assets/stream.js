// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// The connection to kubectl mcs ui.

// silence is how long nothing may be received, in milliseconds. There is a heartbeat every 5 seconds.
const silence = 15000;
// grace is how long a page that is not visible stays connected, in milliseconds.
const grace = 10000;
const storageKey = "token";

// connected is true while the server has proved that it is the one that printed the URL, and answers.
let connected = false;

// takeToken returns the token of the URL, and removes it from the address bar. The browser may have
// recorded the URL in its history before.
export function takeToken() {
  const found = /[#&]token=([A-Za-z0-9]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(storageKey, found[1]);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(storageKey) ?? "";
}

// controlled returns why the page must not start, if a service worker answers its requests: the page has
// none, so that it is of another program.
export function controlled() {
  if (!navigator.serviceWorker?.controller) return "";
  navigator.serviceWorker.getRegistrations().then((all) => all.forEach((one) => one.unregister()));
  return "another program controls this address in the browser: run kubectl mcs ui again and open its new URL";
}

// verify fails if the server does not know the token. It is not sent the token before: after the command
// has ended, somebody else may listen at its port.
async function verify(token, signal) {
  const challenge = crypto.randomUUID();
  const response = await fetch(`/proof?challenge=${challenge}`, { cache: "no-store", signal });
  const proof = await response.json().then((body) => String(body.proof), () => "");
  const bytes = new TextEncoder();
  const key = await crypto.subtle.importKey("raw", bytes.encode(token), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const signature = Uint8Array.from(proof.match(/[0-9a-f]{2}/g) ?? [], (digits) => parseInt(digits, 16));
  if (!await crypto.subtle.verify("HMAC", key, signature, bytes.encode(challenge))) {
    throw unauthorized("what answers is not the command that printed the URL: open the URL that kubectl mcs ui prints");
  }
}

function unauthorized(message) {
  const error = new Error(message);
  error.unauthorized = true;
  return error;
}

// request returns the JSON that the server answers with, within some seconds.
export async function request(token, path, { seconds = 15, signal, headers, ...options } = {}) {
  if (!connected) throw new Error("kubectl mcs ui is not connected");
  const timeout = AbortSignal.timeout(seconds * 1000);
  try {
    const response = await fetch(path, {
      ...options, cache: "no-store", headers: { Authorization: `Bearer ${token}`, ...headers }, signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const body = await response.json();
    if (!response.ok) {
      throw new Error(body.error ?? `the server answered with ${response.status}`);
    }
    return body;
  } catch (error) {
    throw timeout.aborted ? new Error(`kubectl mcs ui did not answer within ${seconds} seconds`) : error;
  }
}

// whileVisible aborts a connection when the page has not been visible for a while: browsers have few connections
// for all tabs. It returns a function that ends it.
function whileVisible(controller) {
  let timer;
  const changed = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => controller.abort(Object.assign(new Error("the page is not visible"), { paused: true })), grace);
  };
  document.addEventListener("visibilitychange", changed);
  changed();
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", changed);
  };
}

// untilVisible waits until the page is visible.
function untilVisible() {
  return new Promise((resolve) => {
    const changed = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", changed);
      resolve();
    };
    document.addEventListener("visibilitychange", changed);
    changed();
  });
}

// follow calls receive with everything that the server sends, and state when the connection changes. It
// connects again until the token is wrong, or the server is another one.
export async function follow(token, receive, state) {
  let delay = 500;
  for (;;) {
    try {
      await readAll(token, (message) => {
        if (message.kind === "snapshot") delay = 500;
        receive(message);
      }, state);
      state("disconnected", "kubectl mcs ui closed the connection");
    } catch (error) {
      if (error.unauthorized) {
        state("unauthorized", error.message);
        return;
      }
      if (error.paused) {
        state("paused", "");
        await untilVisible();
        continue;
      }
      state("disconnected", error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, delay));
    delay = Math.min(delay * 2, 5000);
  }
}

async function readAll(token, receive, state) {
  const controller = new AbortController();
  let watchdog;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => controller.abort(new Error("kubectl mcs ui does not answer")), silence);
  };
  alive();
  const end = whileVisible(controller);
  try {
    if (token) await verify(token, controller.signal); // without it, the server says what to do
    const response = await fetch("/api/events", { headers: { Authorization: `Bearer ${token}` }, cache: "no-store", signal: controller.signal });
    if (!response.ok) {
      const { error } = await response.json();
      throw response.status === 401 ? unauthorized(error) : new Error(error);
    }
    connected = true;
    state("connected", "");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) receive(JSON.parse(line));
    }
  } catch (error) {
    throw controller.signal.aborted ? controller.signal.reason : error; // not all browsers tell why a body ended
  } finally {
    connected = false;
    end();
    clearTimeout(watchdog);
  }
}
