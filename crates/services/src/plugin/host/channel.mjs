// JSON-RPC 2.0 in lines on descriptor 3. Many calls run at once, in both directions.

const DESCRIPTOR = 3;
// The daemon refuses lines of more than 16 MiB and ends the connection.
const MAX_LINE = 15 << 20;

let write = () => {};
let nextId = 0;
const waiting = new Map();
const running = new Map();

export class TooLarge extends Error {}

/** Serves `handlers` until the daemon closes the channel. */
export async function serve(handlers, onClose) {
  const pieces = [];
  const receive = (chunk) => {
    let start = 0;
    for (let end; (end = chunk.indexOf(10, start)) >= 0; start = end + 1) {
      pieces.push(chunk.subarray(start, end));
      const line = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
      pieces.length = 0;
      dispatch(handlers, JSON.parse(line.toString("utf8")));
    }
    if (start < chunk.length) pieces.push(Buffer.from(chunk.subarray(start)));
  };
  write = globalThis.Bun ? await openInBun(receive, onClose) : await openInNode(receive, onClose);
}

async function openInNode(receive, onClose) {
  const { Socket } = await import("node:net");
  const socket = new Socket({ fd: DESCRIPTOR, readable: true, writable: true });
  socket.on("data", receive);
  socket.on("close", onClose);
  socket.on("error", onClose);
  return (line) => socket.write(line);
}

async function openInBun(receive, onClose) {
  const queue = [];
  const flush = (socket) => {
    while (queue.length > 0) {
      const n = socket.write(queue[0]);
      if (n < queue[0].length) {
        queue[0] = queue[0].subarray(Math.max(n, 0));
        return;
      }
      queue.shift();
    }
  };
  const socket = await Bun.connect({
    fd: DESCRIPTOR,
    socket: {
      binaryType: "buffer",
      data: (_, chunk) => receive(chunk),
      drain: flush,
      close: onClose,
      error: onClose,
    },
  });
  return (line) => {
    queue.push(Buffer.from(line));
    if (queue.length === 1) flush(socket);
  };
}

function send(message) {
  const line = JSON.stringify(message);
  if (line.length > MAX_LINE) throw new TooLarge(`it answered with ${(line.length / 1048576).toFixed(0)} MB, more than the 15 MB that are taken`);
  write(line + "\n");
}

export function notify(method, params) {
  send({ jsonrpc: "2.0", method, params });
}

/** Asks the daemon. An aborted `signal` cancels the request there. */
export function request(method, params, signal) {
  const id = `h${++nextId}`;
  return new Promise((resolve, reject) => {
    send({ jsonrpc: "2.0", id, method, params });
    waiting.set(id, { resolve, reject });
    signal?.addEventListener("abort", () => {
      if (waiting.delete(id)) {
        notify("$/cancel", { id });
        reject(signal.reason);
      }
    });
  });
}

function dispatch(handlers, { id, method, params, result, error }) {
  if (method === undefined) {
    const waiter = waiting.get(id);
    waiting.delete(id);
    if (error) waiter?.reject(new Error(error.message));
    else waiter?.resolve(result);
  } else if (method === "$/cancel") {
    running.get(params.id)?.abort(new DOMException("The operation was aborted.", "AbortError"));
  } else if (id === undefined) {
    handlers[method]?.(params);
  } else {
    answer(handlers, id, method, params);
  }
}

async function answer(handlers, id, method, params) {
  const controller = new AbortController();
  running.set(id, controller);
  try {
    const result = await handlers[method](params, controller.signal);
    send({ jsonrpc: "2.0", id, result: result ?? null });
  } catch (error) {
    send({ jsonrpc: "2.0", id, error: { code: error instanceof TooLarge ? 2 : 1, message: reason(error) } });
  } finally {
    running.delete(id);
  }
}

/** The text of anything that was thrown, without its stack. */
export function reason(error) {
  // Errors of other realms, and Bun's own of imports, are no instances of `Error`.
  const text = typeof error === "string" ? error : error?.message || error?.name || JSON.stringify(error);
  return String(text ?? error).slice(0, 4000);
}
