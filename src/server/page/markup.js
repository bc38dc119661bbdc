// A model's text as elements: fenced code, inline code, bold, headings. Everything else stays the text it is. Blocks
// that have not changed keep their elements, so a long answer that grows costs its last block alone.

import { make } from "./dom.js";

// [{kind: "text" | "code" | "heading", text, language}]
export function blocksOf(text) {
  const blocks = [];
  let paragraph = [];
  let code = null;
  const endParagraph = () => {
    const joined = paragraph.join("\n").trim();
    if (joined !== "") blocks.push({ kind: "text", text: joined });
    paragraph = [];
  };
  for (const line of text.split("\n")) {
    const fence = line.match(/^ {0,3}(`{3,})\s*([\w+#.-]*)\s*$/);
    if (code && fence && fence[1].length >= code.fence && fence[2] === "") {
      blocks.push(codeBlock(code));
      code = null;
    } else if (code) {
      code.lines.push(line);
    } else if (fence) {
      endParagraph();
      code = { fence: fence[1].length, language: fence[2], lines: [] };
    } else if (/^#{1,4} \S/.test(line)) {
      endParagraph();
      blocks.push({ kind: "heading", text: line.replace(/^#+ /, "") });
    } else if (line.trim() === "") {
      endParagraph();
    } else {
      paragraph.push(line);
    }
  }
  endParagraph();
  if (code) blocks.push(codeBlock(code));
  return blocks;
}

const codeBlock = (code) => ({ kind: "code", text: code.lines.join("\n"), language: code.language });

// "a `b` **c**" -> nodes
function inline(text) {
  const nodes = [];
  for (const part of text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)) {
    if (part === "") continue;
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) nodes.push(make("code", {}, part.slice(1, -1)));
    else if (part.length > 4 && part.startsWith("**")) nodes.push(make("strong", {}, part.slice(2, -2)));
    else nodes.push(part);
  }
  return nodes;
}

function elementOf(block) {
  if (block.kind === "code") {
    const label = block.language ? [make("span", { class: "language" }, block.language)] : [];
    return make("pre", { tabindex: "0" }, ...label, make("code", {}, block.text));
  }
  return make("p", { class: block.kind === "heading" ? "heading" : "text" }, ...inline(block.text));
}

export class Markup {
  constructor(container) {
    this.container = container;
    this.shown = [];
  }

  show(text) {
    const blocks = blocksOf(text);
    const same = (a, b) => a && a.kind === b.kind && a.text === b.text && a.language === b.language;
    blocks.forEach((block, i) => {
      if (same(this.shown[i], block)) return;
      const element = elementOf(block);
      if (i < this.container.children.length) this.container.children[i].replaceWith(element);
      else this.container.append(element);
    });
    while (this.container.children.length > blocks.length) this.container.lastChild.remove();
    this.shown = blocks;
  }
}
