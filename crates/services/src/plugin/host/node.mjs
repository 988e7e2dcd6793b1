// Lets Node import what Bun does: TypeScript everywhere, files without extensions, and packages that only we have.

import { register } from "node:module";

export async function prepare() {
  register("./resolve.mjs", import.meta.url);
}
