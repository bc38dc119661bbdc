// Elements from values. Text is always text: nothing here, or anywhere on this page, reads HTML from a string.

export const byId = (id) => document.getElementById(id);

// make("p", {class: "quiet", onclick: f, hidden: true}, "text", child, ...)
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// Sets text only where it differs, so that screen readers and selections are left in peace.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
