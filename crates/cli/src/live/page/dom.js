// Elements of the page. All text goes in as text: names of stages and classes are not trusted.

function element(tag, attributes = {}, children = []) {
  const made = document.createElement(tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);

// Leaves alone what is right already, so that what is selected stays selected.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

function setHidden(node, isHidden) {
  if (node.hidden !== isHidden) node.hidden = isHidden;
}

// Told to those who listen to the page rather than look at it.
function announce(text) {
  setText(byId("spoken"), text);
}

// A table whose rows have keys: { id, title, columns, note }. Columns are names; those in which
// there is nothing are not shown.
class Table {
  constructor({ id, title, columns, note }) {
    this.rows = new Map();
    this.body = element("tbody");
    this.head = columns.map((name) => element("th", { scope: "col" }, [name]));
    const table = element("table", { "aria-label": title }, [
      element("thead", {}, [element("tr", {}, this.head)]),
      this.body,
    ]);
    // Who has only a keyboard scrolls what has the focus.
    const scroll = { class: "scroll", role: "region", tabindex: "0", "aria-label": title };
    this.section = element("div", { class: "table", id: `table-${id}`, hidden: "" }, [
      element("h2", {}, [title]),
      element("div", scroll, [table]),
    ]);
    if (note) this.section.append(element("p", { class: "detail" }, [note]));
  }

  // Rows are [key, cells], in their order. Cells are texts, or { text, level }.
  update(rows) {
    this.section.hidden = rows.length === 0;
    const isHidden = this.head.map((_, column) =>
      column > 0 && rows.every(([, cells]) => (cells[column]?.text ?? cells[column]) === NOTHING));
    this.head.forEach((cell, column) => setHidden(cell, isHidden[column]));
    const gone = new Set(this.rows.keys());
    rows.forEach(([key, cells], place) => {
      gone.delete(key);
      if (!this.rows.has(key)) {
        const tags = cells.map((_, index) => (index === 0 ? ["th", { scope: "row" }] : ["td"]));
        this.rows.set(key, element("tr", {}, tags.map((tag) => element(...tag))));
      }
      const row = this.rows.get(key);
      cells.forEach((cell, index) => {
        setText(row.children[index], cell.text ?? cell);
        setAttribute(row.children[index], "data-level", cell.level ?? "");
        setHidden(row.children[index], isHidden[index]);
      });
      if (this.body.children[place] !== row) {
        this.body.insertBefore(row, this.body.children[place] ?? null);
      }
    });
    gone.forEach((key) => {
      this.rows.get(key).remove();
      this.rows.delete(key);
    });
  }
}

// Numbers that are read at a glance: tiles of { name, value, beside, level }.
class Tiles {
  constructor(parent) {
    this.parent = parent;
    this.tiles = new Map();
  }

  update(tiles) {
    for (const tile of this.tiles.values()) tile.whole.hidden = true;
    tiles.forEach(({ name, value, beside, level }, place) => {
      if (!this.tiles.has(name)) this.begin(name);
      const tile = this.tiles.get(name);
      const there = this.parent.children[place] ?? null;
      if (there !== tile.whole) this.parent.insertBefore(tile.whole, there);
      tile.whole.hidden = false;
      setText(tile.value, value);
      setText(tile.beside, beside ?? "");
      setAttribute(tile.beside, "title", beside ?? "");
      setAttribute(tile.whole, "data-level", level ?? "");
    });
  }

  begin(name) {
    const value = element("span", { class: "value" });
    const beside = element("span", { class: "beside" });
    const label = element("span", { class: "name" }, [name]);
    const whole = element("div", { class: "tile" }, [label, value, beside]);
    this.tiles.set(name, { whole, value, beside });
    this.parent.append(whole);
  }
}
