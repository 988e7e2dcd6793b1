// Tools that plugins register while sessions run; `@opencode-ai/tool` exports this.

let take = () => {
  throw new Error("tools can be registered once the plugins are loaded");
};

/** Sets what becomes of a registered tool. */
export function onRegister(work) {
  take = work;
}

export const Tool = {
  define: (id, init) => ({ id, init: typeof init === "function" ? init : async () => init }),
};

export const ToolRegistry = {
  /** Offers a tool from the next step on, in the place of one of the same id. */
  async register(tool) {
    const made = tool.init ? await tool.init() : tool;
    const { description, parameters, execute } = made;
    // An object of zod has the parts of a tool's arguments; a JSON schema has properties.
    const args = made.args ?? parameters?.shape ?? parameters?.properties ?? {};
    await take(tool.id, { description, args, execute: execute.bind(made) });
  },
};
