// Ranges of versions, as `engines.opencode` names them.

/** Returns true if a version is in a range, and for what is no version or of the major version 0. */
export function satisfies(version, range) {
  const own = parts(version);
  if (!own || own[0] === 0) return true;
  return range.split("||").some((alternative) => {
    const hyphen = alternative.match(/^\s*(\S+)\s+-\s+(\S+)\s*$/);
    const terms = hyphen
      ? [`>=${hyphen[1]}`, `<=${hyphen[2]}`]
      : alternative.replace(/([<>=~^]+)\s+/g, "$1").trim().split(/\s+/).filter(Boolean);
    return terms.every((term) => fits(own, term));
  });
}

function parts(text) {
  const match = /^v?(\d+)(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?(?:[-+].*)?$/.exec(text);
  return match && match.slice(1).map((it) => (it === undefined || /[xX*]/.test(it) ? undefined : Number(it)));
}

function compare(a, b) {
  for (let i = 0; i < 3; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function fits(own, term) {
  const [, operator, text] = /^([<>=~^]*)(.*)$/.exec(term);
  if (text === "" || /^[xX*]$/.test(text)) return true;
  const wanted = parts(text);
  if (!wanted) return true;
  const floor = wanted.map((it) => it ?? 0);
  const below = (index) => {
    const ceiling = floor.map((it, i) => (i < index ? it : i === index ? it + 1 : 0));
    return compare(own, floor) >= 0 && compare(own, ceiling) < 0;
  };
  const missing = wanted.indexOf(undefined);
  switch (operator) {
    case ">=":
      return compare(own, floor) >= 0;
    case ">":
      return missing > 0 ? compare(own, floor) > 0 && !below(missing - 1) : compare(own, floor) > 0;
    case "<":
      return compare(own, floor) < 0;
    case "<=":
      return compare(own, floor) <= 0 || (missing > 0 && below(missing - 1));
    case "^":
      return below(Math.max(0, floor.findIndex((it) => it > 0)));
    case "~":
      return below(wanted[1] === undefined ? 0 : 1);
    default:
      return missing > 0 ? below(missing - 1) : compare(own, floor) === 0;
  }
}
