// Requests to the server that this page came from, with the key if there is one. A stream that ends without saying that
// it is whole is an error, never an end.

import { read, write } from "./store.js";

const root = new URL("..", import.meta.url);
const keyName = "octavo.key";
let key = read("tab", keyName);
let keyWanted = () => {};

export class ApiError extends Error {
  constructor(message, { status = 0, retryAfter = 0, param = null } = {}) {
    super(message);
    Object.assign(this, { status, retryAfter, param });
  }
}

export const onKeyWanted = (listener) => (keyWanted = listener);  // called with whether a key was refused

export function setKey(value) {
  key = value;
  write("tab", keyName, value);
}

async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(new URL(path, root), { ...options, headers, cache: "no-store", credentials: "same-origin" });
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new ApiError("The server cannot be reached.");
  }
  if (response.ok) return response;
  if (response.status === 401) keyWanted(key !== null);
  throw await errorOf(response);
}

async function errorOf(response) {
  const retryAfter = Number(response.headers.get("retry-after")) || 0;
  const facts = { status: response.status, retryAfter };
  try {
    const { error } = await response.json();
    return new ApiError(error.message, { ...facts, param: error.param });
  } catch {
    return new ApiError(`The server answered with status ${response.status}.`, facts);
  }
}

export const getJson = async (path) => (await request(path)).json();
export const getText = async (path) => (await request(path)).text();

// Calls onEvent with each event's JSON. Returns when the server has said [DONE]; throws otherwise.
export async function postStream(path, body, signal, onEvent) {
  const response = await request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await nextPiece(reader);
    if (done) throw new ApiError("The connection broke before the answer was complete.");
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const data = dataOf(block);
      if (data === "[DONE]") return;
      if (data === "") continue;
      const event = JSON.parse(data);
      if (event.error) throw new ApiError(event.error.message, { status: event.error.code, param: event.error.param });
      onEvent(event);
    }
  }
}

async function nextPiece(reader) {
  try {
    return await reader.read();
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new ApiError("The connection broke before the answer was complete.");
  }
}

function dataOf(block) {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
}
