"use strict";
// The graph: a canvas that draws what can be seen, a list of which only the visible rows exist, and one node in full.
// Text of the package reaches the page as text nodes and canvas text alone.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const strings = data.strings, [BOX_W, BOX_H, ROW_H] = data.box;
  const LIST_ROW = 22, MAX_LINKS = 40, NO_COLOUR = "–";
  const $ = (id) => document.getElementById(id);
  const text = (index) => (index < 0 ? "" : strings[index]);
  const canvas = $("graph"), list = $("list"), context = canvas.getContext("2d");

  const graphs = data.graphs.map((columns, number) => {
    const rows = [];
    columns.row.forEach((row, node) => (rows[row] ||= []).push(node));
    for (const row of rows) row.sort((a, b) => columns.x[a] - columns.x[b]);
    const reads = columns.name.map(() => []), users = columns.name.map(() => []);
    const edges = columns.edges, long = [];
    for (let i = 0; i < edges.length; i += 3) {
      reads[edges[i + 1]].push(edges[i]);
      users[edges[i]].push(edges[i + 1]);
      if (columns.row[edges[i + 1]] - columns.row[edges[i]] > 1) long.push(i);
    }
    const aside = new Map();
    for (let i = 0; i < edges.length; i += 3) aside.set(edges[i] * columns.name.length + edges[i + 1], edges[i + 2]);
    // By number of hidden rows, edges past them: blocks of the first and last row of a few, so that few are looked at.
    const blocks = [];
    for (let i = 0; i < long.length; i += 64) {
      const part = long.slice(i, i + 64);
      const first = Math.min(...part.map((e) => columns.row[edges[e]]));
      blocks.push([first, Math.max(...part.map((e) => columns.row[edges[e + 1]])), part]);
    }
    let left = Infinity, right = -Infinity;
    for (const x of columns.x) { left = Math.min(left, x); right = Math.max(right, x + BOX_W); }
    if (left > right) left = right = 0;
    return { ...columns, number, rows, reads, users, blocks, aside, left, right, bottom: rows.length * ROW_H };
  });
  const all = [];  // every node of every graph, as [graph, node]
  for (const graph of graphs) for (let node = 0; node < graph.name.length; node++) all.push([graph.number, node]);

  let graph = graphs[0], chosen = -1, view = { x: 0, y: 0, scale: 1 };
  let palette = {}, found = all, words = null, position = -1;

  // ---- colours

  const KINDS = {
    engine: (g, n) => text(g.engine[n]) || NO_COLOUR,
    op: (g, n) => text(g.op[n]),
    format: (g, n) => (g.out[n].length ? text(g.out[n][1]).split("]").pop().split(",")[0].trim() || NO_COLOUR : NO_COLOUR),
  };
  const MEASURES = { time: "seconds", error: "errors" };
  const select = $("colour");
  for (const kind of [...Object.keys(KINDS), ...Object.keys(MEASURES).filter((kind) => graphs.some((g) => g[MEASURES[kind]]))]) {
    select.append(new Option(kind, kind));
  }
  if (graphs.some((g) => g.seconds)) select.value = "time";

  function readPalette() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ground", "ink", "faint", "line", "edge", "chosen", "box", "cold", "hot", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"]) {
      palette[name] = style.getPropertyValue(`--${name}`).trim();
    }
    chooseColours();
  }

  let colourOf = () => palette.box;
  function chooseColours() {
    const kind = select.value, legend = [];
    if (MEASURES[kind]) {
      const key = MEASURES[kind];
      let most = 0;
      for (const g of graphs) for (const value of g[key] || []) most = Math.max(most, value || 0);
      const parts = [palette.cold, palette.hot].map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
      const mix = (share) => `rgb(${parts[0].map((low, i) => Math.round(low + share * (parts[1][i] - low))).join(",")})`;
      colourOf = (g, n) => mix(most > 0 && g[key] ? Math.sqrt((g[key][n] || 0) / most) : 0);
      legend.push(["none", palette.cold], [kind === "time" ? duration(most) : most.toPrecision(3), palette.hot]);
    } else {
      const counts = new Map();
      for (let n = 0; n < graph.name.length; n++) counts.set(KINDS[kind](graph, n), (counts.get(KINDS[kind](graph, n)) || 0) + 1);
      const order = [...counts.entries()].filter(([name]) => name !== NO_COLOUR).sort((a, b) => b[1] - a[1]);
      const colours = new Map(order.slice(0, 8).map(([name], i) => [name, palette[`c${i}`]]));
      colourOf = (g, n) => colours.get(KINDS[kind](g, n)) || palette.box;
      order.slice(0, 8).forEach(([name, count]) => legend.push([`${name} ${count}`, colours.get(name)]));
      if (order.length > 8) legend.push([`${order.length - 8} more`, palette.box]);
    }
    $("legend").replaceChildren(...legend.map(([name, colour]) => {
      const item = document.createElement("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("width", "12"); svg.setAttribute("height", "12"); svg.setAttribute("aria-hidden", "true");
      const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      for (const [key, value] of Object.entries({ width: 12, height: 12, rx: 2, fill: colour, stroke: palette.faint })) rect.setAttribute(key, value);
      svg.append(rect); item.append(svg, name);
      return item;
    }));
    requestDraw();
  }

  function duration(seconds) {
    return seconds >= 1 ? `${seconds.toPrecision(3)} s` : seconds >= 1e-3 ? `${(seconds * 1e3).toPrecision(3)} ms` : `${(seconds * 1e6).toPrecision(3)} µs`;
  }

  // ---- drawing

  let pending = false;
  function requestDraw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; draw(); });
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.ground;
    context.fillRect(0, 0, width, height);
    const first = Math.max(0, Math.floor(view.y / ROW_H) - 1);
    const last = Math.min(graph.rows.length - 1, Math.ceil((view.y + height / view.scale) / ROW_H));
    // Where rows are finer than pixels, one a pixel is drawn.
    const stride = Math.max(1, Math.floor(1 / (ROW_H * view.scale)));
    if (view.scale > 0.06) drawEdges(first, last);
    for (let row = first - (first % stride); row <= last; row += stride) {
      if (row >= 0) for (const node of graph.rows[row]) drawBox(node, width);
    }
    if (chosen >= 0) drawChosen();
  }

  const toX = (x) => (x - view.x) * view.scale, toY = (y) => (y - view.y) * view.scale;
  const topOf = (node) => graph.row[node] * ROW_H;

  function edgePath(source, target) {
    const aside = graph.aside.get(source * graph.name.length + target) || 0;
    const x1 = graph.x[source] + BOX_W / 2, y1 = topOf(source) + BOX_H, x2 = graph.x[target] + BOX_W / 2, y2 = topOf(target);
    const bend = aside ? ROW_H - BOX_H : (y2 - y1) / 2;
    context.moveTo(toX(x1), toY(y1));
    context.bezierCurveTo(toX(x1 + aside), toY(y1 + bend), toX(x2 + aside), toY(y2 - bend), toX(x2), toY(y2));
  }

  function drawEdges(first, last) {
    context.strokeStyle = palette.edge;
    context.lineWidth = Math.max(0.5, Math.min(1.5, view.scale * 1.5));
    context.beginPath();
    for (let row = first; row <= last; row++) {
      for (const node of graph.rows[row]) {
        for (const source of graph.reads[node]) if (row - graph.row[source] === 1) edgePath(source, node);
      }
    }
    for (const [from, to, part] of graph.blocks) {
      if (from > last || to < first) continue;
      for (const edge of part) {
        const source = graph.edges[edge], target = graph.edges[edge + 1];
        if (graph.row[source] <= last && graph.row[target] >= first) edgePath(source, target);
      }
    }
    context.stroke();
  }

  function drawBox(node, width) {
    const x = toX(graph.x[node]), y = toY(topOf(node)), w = Math.max(3, BOX_W * view.scale), h = Math.max(1, BOX_H * view.scale);
    if (x > width || x + w < 0) return;
    context.fillStyle = colourOf(graph, node);
    context.fillRect(x, y, w, h);
    if (view.scale < 0.12) return;
    context.strokeStyle = palette.faint;
    context.lineWidth = 0.7;
    context.strokeRect(x, y, w, h);
    if (view.scale < 0.3) return;
    const size = 12 * view.scale, lines = [text(graph.op[node]), text(graph.name[node]), outputText(node)];
    context.fillStyle = palette.ink;
    lines.forEach((line, i) => {
      if (i && view.scale < 0.45) return;
      context.font = `${i ? "" : "bold "}${size}px monospace`;
      context.fillText(fit(line, (BOX_W - 12) * view.scale, size * 0.602), x + 6 * view.scale, y + (15 + 16 * i) * view.scale);
    });
  }

  function outputText(node) {
    return graph.out[node].length ? text(graph.out[node][1]) : "";
  }

  function fit(line, width, letter) {
    const room = Math.floor(width / letter);
    return line.length <= room ? line : `${line.slice(0, Math.floor(room / 2) - 1)}…${line.slice(line.length - Math.ceil(room / 2) + 1)}`;
  }

  function drawChosen() {
    context.strokeStyle = palette.chosen;
    context.lineWidth = 2;
    context.beginPath();
    for (const source of graph.reads[chosen].slice(0, 200)) edgePath(source, chosen);
    for (const target of graph.users[chosen].slice(0, 200)) edgePath(chosen, target);
    context.stroke();
    context.lineWidth = 2.5;
    context.strokeRect(toX(graph.x[chosen]), toY(topOf(chosen)), Math.max(4, BOX_W * view.scale), Math.max(4, BOX_H * view.scale));
  }

  // ---- moving

  function fitAll() {
    const width = canvas.clientWidth || 600, height = canvas.clientHeight || 400;
    const across = width / (graph.right - graph.left + 40), down = height / (graph.bottom + 40);
    view.scale = Math.min(1.2, across, down);
    view.x = (graph.left + graph.right) / 2 - width / 2 / view.scale;
    view.y = graph.bottom / 2 - height / 2 / view.scale;
    requestDraw();
  }

  function start() {
    // Of a graph that is much too long to be read at once, its beginning.
    fitAll();
    if (view.scale < 0.3) {
      const width = canvas.clientWidth || 600;
      view.scale = Math.max(0.45, Math.min(0.9, width / (graph.right - graph.left + 40)));
      const row = graph.rows[0] || [];
      const middle = row.length ? graph.x[row[Math.floor(row.length / 2)]] + BOX_W / 2 : 0;
      view.x = middle - width / 2 / view.scale;
      view.y = -20;
    }
    requestDraw();
  }

  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const smallest = Math.min(0.05, canvas.clientHeight / (graph.bottom + 40) / 2);
    const scale = Math.min(4, Math.max(smallest, view.scale * factor));
    view.x += x / view.scale - x / scale;
    view.y += y / view.scale - y / scale;
    view.scale = scale;
    requestDraw();
  }

  function show(node) {
    const width = canvas.clientWidth, height = canvas.clientHeight;
    const tooSmall = view.scale < 0.45;
    if (tooSmall) view.scale = 0.8;
    const x = toX(graph.x[node]), y = toY(topOf(node)), w = BOX_W * view.scale, h = BOX_H * view.scale;
    if (tooSmall || x < 0 || x + w > width) view.x = graph.x[node] + BOX_W / 2 - width / 2 / view.scale;
    if (tooSmall || y < 0 || y + h > height) view.y = topOf(node) + BOX_H / 2 - height / 2 / view.scale;
    requestDraw();
  }

  function open(number, node = -1) {
    graph = graphs[number];
    $("back").disabled = graph.parent < 0;
    chosen = -1;
    start();
    if (!MEASURES[select.value]) chooseColours();
    if (node >= 0) choose(node);
  }

  function choose(node, fromList = false) {
    chosen = node;
    show(node);
    describe(node);
    $("said").textContent = `${text(graph.op[node])} ${text(graph.name[node])}`;
    if (!fromList) {
      position = found.findIndex(([g, n]) => g === graph.number && n === node);
      showRow();
    }
  }

  // ---- one node

  function describe(node) {
    const panel = $("node"), parts = [];
    const add = (tag, content) => { const e = document.createElement(tag); e.textContent = content; parts.push(e); return e; };
    const listed = (title, lines) => {
      if (!lines.length) return;
      add("h4", title);
      const ul = document.createElement("ul");
      for (const line of lines) { const li = document.createElement("li"); li.textContent = line; ul.append(li); }
      parts.push(ul);
    };
    const pairs = (flat) => { const lines = []; for (let i = 0; i < flat.length; i += 2) lines.push(`${text(flat[i])}  ${text(flat[i + 1])}`); return lines; };
    const links = (title, nodes) => {
      if (!nodes.length) return;
      add("h4", title);
      for (const other of nodes.slice(0, MAX_LINKS)) {
        const button = add("button", `${text(graph.op[other])} ${text(graph.name[other])}`);
        button.type = "button";
        button.addEventListener("click", () => { choose(other); canvas.focus(); });
      }
      if (nodes.length > MAX_LINKS) add("p", `and ${nodes.length - MAX_LINKS} more`);
    };
    add("h3", `${text(graph.op[node])} ${text(graph.name[node])}`);
    const engine = text(graph.engine[node]);
    if (engine) add("p", engine);
    if (graph.seconds && graph.seconds[node] !== null) add("p", `${duration(graph.seconds[node])} a run`);
    if (graph.errors && graph.errors[node] !== null) add("p", `error ${graph.errors[node].toPrecision(3)}`);
    for (const body of graph.bodies[node]) {
      const button = add("button", `open its body, ${graphs[body].name.length} nodes`);
      button.type = "button";
      button.addEventListener("click", () => { open(body); canvas.focus(); });
    }
    listed("Results", pairs(graph.out[node]));
    listed("Operands", pairs(graph.in[node]));
    listed("Tasks", graph.tasks[node].map((task) => {
      let line = `${task[0]}: ${text(task[1])}`;
      if (task[2]) line += `, stream ${task[2]}`;
      if (task[3] >= 0) line += `, plan ${text(task[3])}`;
      for (let i = 4; i < task.length; i += 3) if (task[i + 1] >= 0) line += `, ${text(task[i])} at ${task[i + 1]}, ${task[i + 2]} bytes`;
      return line;
    }));
    listed("Nodes of the model", graph.sources[node].map(text));
    listed("Passes", graph.passes[node].map(text));
    const why = [];
    for (let i = 0; i < graph.why[node].length; i += 3) {
      const detail = text(graph.why[node][i + 2]);
      why.push(`${text(graph.why[node][i])}: ${text(graph.why[node][i + 1])}${detail ? ` (${detail})` : ""}`);
    }
    listed("Left alone by", why);
    links("Reads", graph.reads[node]);
    links("Read by", graph.users[node]);
    panel.replaceChildren(...parts);
    panel.scrollTop = 0;
  }

  // ---- search and list

  function haystacks() {
    const lower = strings.map((line) => line.toLowerCase());
    words = all.map(([g, n]) => {
      const of = graphs[g], parts = [of.name[n], of.op[n], of.engine[n], ...of.sources[n], ...of.out[n], ...of.tasks[n].map((task) => task[1])];
      return parts.map((index) => (index < 0 ? "" : lower[index])).join("\n");
    });
  }

  function search() {
    const asked = $("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    if (asked.length && !words) haystacks();
    found = asked.length ? all.filter((_, i) => asked.every((word) => words[i].includes(word))) : all;
    $("matches").textContent = `${found.length} of ${all.length} nodes`;
    position = -1;
    inner.style.height = `${found.length * LIST_ROW}px`;
    list.scrollTop = 0;
    fillList();
  }

  const inner = document.createElement("div");
  inner.className = "all";
  inner.setAttribute("role", "presentation");
  list.append(inner);

  function fillList() {
    const first = Math.max(0, Math.floor(list.scrollTop / LIST_ROW) - 4);
    const last = Math.min(found.length, first + Math.ceil((list.clientHeight || 400) / LIST_ROW) + 8);
    const rows = [];
    for (let i = first; i < last; i++) {
      const [g, n] = found[i], row = document.createElement("div");
      row.className = "row";
      row.id = `row-${i}`;
      row.style.top = `${i * LIST_ROW}px`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", String(i === position));
      row.setAttribute("aria-setsize", found.length);
      row.setAttribute("aria-posinset", i + 1);
      row.textContent = `${text(graphs[g].op[n])}  ${text(graphs[g].name[n])}`;
      row.title = row.textContent;
      row.addEventListener("click", () => pick(i));
      rows.push(row);
    }
    inner.replaceChildren(...rows);
    if (position >= first && position < last) list.setAttribute("aria-activedescendant", `row-${position}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function showRow() {
    if (position >= 0) {
      const top = position * LIST_ROW, height = list.clientHeight;
      if (top < list.scrollTop) list.scrollTop = top;
      else if (top + LIST_ROW > list.scrollTop + height) list.scrollTop = top + LIST_ROW - height;
    }
    fillList();
  }

  function pick(index) {
    if (index < 0 || index >= found.length) return;
    position = index;
    const [g, n] = found[index];
    if (graphs[g] !== graph) { open(g); }
    choose(n, true);
    showRow();
  }

  list.addEventListener("scroll", fillList);
  list.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(list.clientHeight / LIST_ROW) - 1);
    const steps = { ArrowDown: position + 1, ArrowUp: position - 1, Home: 0, End: found.length - 1, PageDown: position + page, PageUp: position - page };
    if (event.key === "Enter") { canvas.focus(); event.preventDefault(); return; }
    if (!(event.key in steps)) return;
    pick(Math.max(0, Math.min(found.length - 1, steps[event.key])));
    event.preventDefault();
  });
  $("search").addEventListener("input", search);
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") pick(position + 1 < found.length ? position + 1 : 0);
    else if (event.key === "ArrowDown") { list.focus(); pick(Math.max(position, 0)); event.preventDefault(); }
  });

  // ---- keyboard, pointer and buttons of the graph

  const PAN = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  function walk(key) {
    if (!graph.name.length) return;
    if (chosen < 0) return choose(graph.rows[Math.min(graph.rows.length - 1, Math.max(0, Math.round(view.y / ROW_H)))][0]);
    const row = graph.rows[graph.row[chosen]], at = row.indexOf(chosen);
    const next = { ArrowUp: graph.reads[chosen][0], ArrowDown: graph.users[chosen][0], ArrowLeft: row[at - 1], ArrowRight: row[at + 1] }[key];
    if (next !== undefined) choose(next);
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 80 / view.scale;
    if (event.key in PAN && event.shiftKey) { view.x += PAN[event.key][0] * step; view.y += PAN[event.key][1] * step; requestDraw(); }
    else if (event.key in PAN) walk(event.key);
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fitAll();
    else if (event.key === "Enter" && chosen >= 0 && graph.bodies[chosen].length) open(graph.bodies[chosen][0]);
    else if (event.key === "Backspace" && graph.parent >= 0) open(graph.parent);
    else if (event.key === "/") $("search").focus();
    else return;
    event.preventDefault();
  });

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.clientX, y: event.clientY, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    view.x -= dx / view.scale;
    view.y -= dy / view.scale;
    requestDraw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) {
      const node = nodeAt(event.offsetX / view.scale + view.x, event.offsetY / view.scale + view.y);
      if (node >= 0) choose(node);
    }
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("wheel", (event) => {
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
    event.preventDefault();
  }, { passive: false });

  function nodeAt(x, y) {
    const row = Math.floor(y / ROW_H);
    if (row < 0 || row >= graph.rows.length || y - row * ROW_H > BOX_H) return -1;
    const hit = graph.rows[row].find((node) => x >= graph.x[node] && x <= graph.x[node] + BOX_W);
    return hit === undefined ? -1 : hit;
  }

  $("zoom-in").addEventListener("click", () => zoom(1.25));
  $("zoom-out").addEventListener("click", () => zoom(0.8));
  $("fit").addEventListener("click", fitAll);
  $("back").addEventListener("click", () => { if (graph.parent >= 0) open(graph.parent); });
  select.addEventListener("change", chooseColours);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readPalette);

  $("viewer").hidden = false;
  readPalette();
  new ResizeObserver(requestDraw).observe(canvas);
  open(0);
  search();
})();
