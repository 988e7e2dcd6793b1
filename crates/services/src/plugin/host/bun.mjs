// Lets plugins that nothing is installed for import the packages that come with us.

import { readFileSync } from "node:fs";
import { dirname, extname } from "node:path";

const PACKAGES = /(["'])((?:@opencode-ai\/(?:plugin|sdk|tool)|zod)(?:\/[\w./-]+)?)\1/g;

export function prepare() {
  Bun.plugin({
    name: "windlass",
    setup: (build) => build.onLoad({ filter: /^(?!.*\/node_modules\/).*\.[mc]?[jt]sx?$/ }, load),
  });
}

/** Bun asks no plugin where a package is, so its name in the text becomes a path where it cannot be found. */
function load({ path }) {
  const contents = readFileSync(path, "utf8").replace(PACKAGES, (whole, _, specifier) => {
    if (found(specifier, dirname(path))) return whole;
    const own = found(specifier, import.meta.dir);
    return own ? JSON.stringify(own) : whole;
  });
  const loader = extname(path).replace(/^\.[mc]?/, "");
  return { contents, loader };
}

function found(specifier, directory) {
  try {
    return Bun.resolveSync(specifier, directory);
  } catch {
    return undefined;
  }
}
