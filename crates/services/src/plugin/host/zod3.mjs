// Arguments written for the third version of zod, as JSON schemas.

export const isZod3 = (it) => it !== null && typeof it === "object" && !("_zod" in it) && typeof it._def?.typeName === "string";

/** Types within each other, of those that are made anew each time. */
const MAX_DEPTH = 32;

const FORMATS = { email: "email", url: "uri", uuid: "uuid", datetime: "date-time", date: "date", time: "time" };

/** Returns the JSON schema of a type; fails for one that has none. A type within itself takes anything there. */
export function schemaOf(type, around = []) {
  if (around.includes(type) || around.length > MAX_DEPTH) return {};
  const description = type.description ?? type._def.description;
  const made = made3(type._def, (inner) => schemaOf(inner, [...around, type]));
  return description === undefined ? made : { ...made, description };
}

const WITHIN = { ZodOptional: "innerType", ZodCatch: "innerType", ZodReadonly: "innerType", ZodBranded: "type", ZodPromise: "type", ZodEffects: "schema", ZodPipeline: "in" };

function made3(def, of) {
  if (def.typeName in WITHIN) return of(def[WITHIN[def.typeName]]);
  switch (def.typeName) {
    case "ZodString": return checked({ type: "string" }, def.checks, { min: "minLength", max: "maxLength" });
    case "ZodNumber": return checked({ type: def.checks?.some((it) => it.kind === "int") ? "integer" : "number" }, def.checks, { min: "minimum", max: "maximum" });
    case "ZodBigInt": return { type: "integer" };
    case "ZodBoolean": return { type: "boolean" };
    case "ZodDate": return { type: "string", format: "date-time" };
    case "ZodNull": return { type: "null" };
    case "ZodAny": case "ZodUnknown": return {};
    case "ZodLiteral": return { const: def.value };
    case "ZodEnum": return { type: "string", enum: [...def.values] };
    case "ZodNativeEnum": return { enum: valuesOf(def.values) };
    case "ZodArray": return listed({ type: "array", items: of(def.type) }, def.exactLength ?? def.minLength, def.exactLength ?? def.maxLength);
    case "ZodSet": return { type: "array", uniqueItems: true, items: of(def.valueType) };
    case "ZodTuple": return listed({ type: "array", items: { anyOf: def.items.map(of) } }, { value: def.items.length }, def.rest ? null : { value: def.items.length });
    case "ZodObject": return objectOf(typeof def.shape === "function" ? def.shape() : def.shape, of);
    case "ZodRecord": return { type: "object", additionalProperties: of(def.valueType) };
    case "ZodUnion": case "ZodDiscriminatedUnion": return { anyOf: [...(def.options.values?.() ?? def.options)].map(of) };
    case "ZodIntersection": return { allOf: [of(def.left), of(def.right)] };
    case "ZodNullable": return { anyOf: [of(def.innerType), { type: "null" }] };
    case "ZodDefault": return { ...of(def.innerType), default: def.defaultValue() };
    case "ZodLazy": return of(def.getter());
    default: throw new TypeError(`a ${def.typeName} has no JSON schema`);
  }
}

function objectOf(shape, of) {
  const entries = Object.entries(shape);
  const required = entries.filter(([, type]) => !type.isOptional()).map(([key]) => key);
  return { type: "object", properties: Object.fromEntries(entries.map(([key, type]) => [key, of(type)])), required };
}

function checked(schema, checks, bounds) {
  for (const { kind, value, inclusive, regex } of checks ?? []) {
    if (kind in bounds) {
      const name = bounds[kind];
      schema[inclusive === false ? name.replace("m", "exclusiveM") : name] = value;
    } else if (kind === "length") Object.assign(schema, { minLength: value, maxLength: value });
    else if (kind === "multipleOf") schema.multipleOf = value;
    else if (kind === "regex") schema.pattern = regex.source;
    else if (kind in FORMATS) schema.format = FORMATS[kind];
  }
  return schema;
}

function listed(schema, min, max) {
  if (min) schema.minItems = min.value;
  if (max) schema.maxItems = max.value;
  return schema;
}

/** An enumeration of TypeScript names its numbers in both directions. */
const valuesOf = (names) => Object.keys(names).filter((key) => typeof names[names[key]] !== "number").map((key) => names[key]);
