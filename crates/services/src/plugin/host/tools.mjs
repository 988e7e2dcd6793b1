// Custom tools: their schemas as the model reads them, and their calls.

import { notify, reason, request } from "./channel.mjs";
import { announce, within } from "./current.mjs";
import { isZod3, schemaOf } from "./zod3.mjs";

const isTool = (it) => it !== null && typeof it === "object" && typeof it.execute === "function" && "description" in it;
const isZod = (it) => it !== null && typeof it === "object" && "_zod" in it;

/** Returns the tools that a file exports, by id. */
export function ofModule(file, module) {
  const tools = new Map();
  for (const [key, value] of Object.entries(module)) {
    if (isTool(value)) tools.set(key === "default" ? file : `${file}_${key}`, value);
  }
  return tools;
}

/** Returns zod, which takes a while to read: only tools with arguments need it. */
const zod = async () => (await import("./library/zod.js")).z;

/** Returns a tool as the daemon knows it. */
export async function described(id, plugin, tool) {
  return { id, plugin, description: String(tool.description ?? ""), schema: await schema(tool.args ?? {}), plain: isPlain(tool.args ?? {}) };
}

/** Returns true for arguments that are a JSON schema as a whole. */
const isWhole = ({ type, properties }) => type === "object" && properties !== null && typeof properties === "object";

const isAllZod = (args) => Object.values(args).every(isZod);
const isPlain = (args) => isWhole(args) || (Object.keys(args).length > 0 && Object.values(args).every(isJsonSchema));

/** Values of other libraries have a form of their own. */
const isJsonSchema = (it) =>
  typeof it === "boolean" ||
  (it !== null && typeof it === "object" && !Array.isArray(it) && !["_zod", "_def", "~standard", "parse"].some((key) => key in it));

async function schema(args) {
  if (Object.keys(args).length === 0) return { $schema: "https://json-schema.org/draft/2020-12/schema", type: "object", properties: {} };
  if (isWhole(args)) return args;
  if (isAllZod(args)) return ofZod(await zod(), args);
  const properties = {};
  const required = [];
  for (const [key, arg] of Object.entries(args)) {
    if (isZod(arg)) {
      const own = ofZod(await zod(), { [key]: arg });
      properties[key] = own.properties[key];
      required.push(...(own.required ?? []));
      continue;
    }
    if (!isZod3(arg) && !isJsonSchema(arg)) throw new TypeError(`its argument ${key} is neither of zod nor a JSON schema`);
    properties[key] = isZod3(arg) ? schemaOf(arg) : arg;
    if (!isZod3(arg) || !arg.isOptional()) required.push(key);
  }
  return { type: "object", properties, required };
}

function ofZod(z, args) {
  // A plugin's own copy of zod keeps descriptions in a registry of its own.
  const override = ({ zodSchema, jsonSchema }) => Object.assign(jsonSchema, zodSchema.meta?.());
  const made = z.toJSONSchema(z.object(args), { io: "input", unrepresentable: "any", override });
  delete made.additionalProperties;
  return renamed(made);
}

/** Says definitions as the models' APIs read them, and drops what an older draft said as a flag. */
function renamed(node) {
  if (Array.isArray(node)) return node.map(renamed);
  if (node === null || typeof node !== "object") return node;
  const result = {};
  for (const [key, value] of Object.entries(node)) {
    if (key.startsWith("exclusiveM") && typeof value === "boolean") continue;
    const isReference = key === "$ref" && typeof value === "string";
    result[key === "$defs" ? "definitions" : key] = isReference ? value.replace("#/$defs/", "#/definitions/") : renamed(value);
  }
  return result;
}

/** Runs a call. What the arguments lack or have wrong comes back as `invalid`. */
export async function run(tool, { args, context }, signal) {
  let input = args;
  const wanted = tool.args ?? {};
  if (Object.keys(wanted).length > 0 && isAllZod(wanted)) {
    const z = await zod();
    const parsed = await z.object(wanted).safeParseAsync(args);
    if (!parsed.success) return { invalid: z.prettifyError(parsed.error) };
    input = parsed.data;
  } else {
    const { read, invalid } = await each(wanted, args);
    if (invalid) return { invalid };
    input = read;
  }
  const call = context.call;
  const { call: _, ...known } = context;
  const own = {
    ...known,
    abort: signal,
    metadata: (update) => notify("metadata", { call, title: update?.title, metadata: update?.metadata }),
    ask: (wanted) => request("ask", { call, ...wanted }, signal),
  };
  return result(await tool.execute(input, own));
}

/** Reads each argument by its own type, of whichever zod it is. */
async function each(wanted, args) {
  const read = { ...args };
  const issues = [];
  for (const [key, type] of Object.entries(wanted)) {
    if (!isZod(type) && !isZod3(type)) continue;
    const parsed = await type.safeParseAsync(args[key]);
    if (!parsed.success) {
      for (const { message, path } of parsed.error.issues) issues.push(`${message} (at ${[key, ...path].join(".")})`);
    } else if (parsed.data !== undefined) read[key] = parsed.data;
  }
  return { read, invalid: issues.join("\n") };
}

function result(value) {
  if (typeof value === "string") return { output: value };
  if (value !== null && typeof value === "object" && typeof value.output === "string") {
    const { title, output, metadata, attachments } = value;
    return { title, output, metadata, attachments };
  }
  throw new TypeError(`the tool returned ${value === null ? "null" : `a value of type ${typeof value}`} where a text or {output} is needed`);
}

export async function call(known, params, signal) {
  const { plugin, tool } = known;
  announce(plugin);
  try {
    return await within(plugin, () => run(tool, params, signal));
  } catch (error) {
    return { failed: reason(error) };
  }
}
