// What the browser keeps: for this tab, or for all. Where it keeps nothing (a private window may refuse), the page
// works and forgets.

const areaOf = { tab: () => sessionStorage, browser: () => localStorage };

export function read(place, name) {
  try {
    return areaOf[place]().getItem(name);
  } catch {
    return null;
  }
}

// The JSON value under this name, or the other one.
export function readJson(place, name, otherwise) {
  try {
    return JSON.parse(read(place, name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

// value null: forgets
export function write(place, name, value) {
  try {
    if (value === null) areaOf[place]().removeItem(name);
    else areaOf[place]().setItem(name, value);
  } catch {
    // Refused, or full: the open page still has it.
  }
}
