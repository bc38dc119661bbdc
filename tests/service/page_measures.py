"""What page_slow_test.py measures inside the page: contrast, names for screen readers, the modules' own answers."""

# Every text that is seen against what is behind it: those under the ratio of WCAG 2's level AA.
CONTRAST = r"""(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
      if (colour[3] !== 0) throw new Error("a background that is half there: " + at.outerHTML.slice(0, 80));
    }
    return [255, 255, 255, 255];
  };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement;
    if (node.data.trim() === "" || !element.checkVisibility() || element.closest("noscript")) continue;
    const style = getComputedStyle(element);
    const front = rgba(element.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(front), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${node.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return poor;
})()"""

NAMED_ROLES = {"button", "link", "textbox", "combobox", "spinbutton", "region", "img", "image", "progressbar", "log"}


def UNNAMED(node):
    """Whether a node of Chromium's accessibility tree needs a name and has none."""
    if node.get("ignored") or node.get("role", {}).get("value") not in NAMED_ROLES:
        return False
    return not node.get("name", {}).get("value", "").strip()


# Values by hand, of the modules that compute.
MODULES = r"""(async () => {
  const {blocksOf} = await import("./page/markup.js");
  const {Metrics, saturation} = await import("./page/metrics_text.js");
  const {verdict} = await import("./page/verdict.js");
  const {niceCeiling} = await import("./page/curve.js");
  const {percent, share, seconds, bytes, count} = await import("./page/format.js");
  const same = (got, wanted) => {
    const texts = [got, wanted].map((value) => JSON.stringify(value));
    if (texts[0] !== texts[1]) throw new Error(texts.join(" is not "));
  };
  same(blocksOf("a\nb\n\nc"), [{kind: "text", text: "a\nb"}, {kind: "text", text: "c"}]);
  same(blocksOf("x\n```py\n\n1\n```\ny").map((b) => [b.kind, b.text]), [["text", "x"], ["code", "\n1"], ["text", "y"]]);
  same(blocksOf("````\n```\n````").map((b) => [b.kind, b.text]), [["code", "```"]]);
  same(blocksOf("```js\nnot closed").map((b) => [b.kind, b.text, b.language]), [["code", "not closed", "js"]]);
  same(blocksOf("## T\n#no").map((b) => [b.kind, b.text]), [["heading", "T"], ["text", "#no"]]);
  same(blocksOf(""), []);
  const metrics = new Metrics('# HELP a b\na{m="x\\"},{y",layer="0"} 2\na{m="z"} 3\nb 1e-05\nc{} +Inf\n');
  same(metrics.rows.get("a")[0].labels, {m: 'x"},{y', layer: "0"});
  same([metrics.value("a"), metrics.sum("a"), metrics.value("b"), metrics.value("none")], [2, 5, 1e-5, 0]);
  same(metrics.value("c") === Infinity, true);
  same([saturation({written: 0, saturated: 0}), saturation({written: 200, saturated: 1})], [0, 0.005]);
  same([0, 3, 7, 10, 0.011, 99].map(niceCeiling), [1, 4, 8, 10, 0.02, 100]);
  same([0, 0.0004, 0.5, 0.9999, 1].map(percent), ["0%", "<0.1%", "50%", "99.9%", "100%"]);
  same([0, 0.00123, 1e-7].map(share), ["0%", "0.12%", "<0.001%"]);
  same([0.00042, 0.0446, 1.5, 300].map(seconds), ["0.42 ms", "44.6 ms", "1.5 s", "5 min"]);
  same([bytes(11520), count(131072)], ["11.3 KiB", "131,072"]);
  const well = {problem: "", unreachableSeconds: 0, running: 0, waiting: 0, waitsLong: false, maxRunning: 64, usage: 0, layers: [],
                minute: {rejected: 0, preempted: 0, failed: 0}};
  const level = (changes) => verdict({...well, ...changes}).level;
  same(level({}), "ok");
  same([level({running: 64, usage: 0.9}), level({waiting: 1})], ["ok", "ok"]);
  same([level({problem: "the engine has died"}), level({unreachableSeconds: 4})], ["bad", "bad"]);
  same([level({waiting: 3, waitsLong: true}), level({usage: 0.99})], ["warn", "warn"]);
  same(level({minute: {...well.minute, rejected: 1}}), "warn");
  same(level({layers: [{layer: 3, written: 1000, saturated: 2}]}), "warn");
  same(level({layers: [{layer: 3, written: 1e6, saturated: 99}]}), "ok");
  return "all good";
})()"""
