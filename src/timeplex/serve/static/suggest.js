// Names while one types: a list box below the field. Without it the form is sent, and names that are near are told.
const MOST = 8;
const PAUSE = 120;

function listBox(input, number) {
  const around = document.createElement("span");
  around.className = "suggest";
  input.before(around);
  const list = document.createElement("ul");
  list.id = `suggest-${number}`;
  list.role = "listbox";
  list.ariaLabel = "Names";
  list.hidden = true;
  around.append(input, list);
  for (const [name, value] of Object.entries({
    role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false",
  })) input.setAttribute(name, value);
  return list;
}

function suggest(input, number) {
  const list = listBox(input, number);
  let found = [], chosen = -1, timer = 0, asked = 0;

  function close() {
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function mark(at) {
    chosen = at;
    [...list.children].forEach((each, place) => each.setAttribute("aria-selected", String(place === at)));
    if (at < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", list.children[at].id);
    list.children[at].scrollIntoView({ block: "nearest" });
  }

  function take(at) {
    const each = found[at];
    input.value = each.id;
    close();
    if (input.dataset.go !== undefined) location.href = `/entity?id=${encodeURIComponent(each.id)}`;
  }

  function show(items) {
    found = items;
    list.replaceChildren(...items.map((each, at) => {
      const row = document.createElement("li");
      row.id = `${list.id}-${at}`;
      row.role = "option";
      row.setAttribute("aria-selected", "false");
      const name = document.createElement("bdi");
      name.textContent = each.shown;
      const facts = document.createElement("small");
      facts.textContent = each.facts.toLocaleString("en");
      row.append(name, facts);
      row.addEventListener("pointerdown", (event) => { event.preventDefault(); take(at); });
      return row;
    }));
    list.hidden = !items.length;
    input.setAttribute("aria-expanded", String(items.length > 0));
    mark(-1);
  }

  async function ask() {
    const text = input.value.trim(), mine = ++asked;
    if (!text) return close();
    const answer = await fetch(`/search.json?limit=${MOST}&q=${encodeURIComponent(text)}`);
    if (!answer.ok || mine !== asked || document.activeElement !== input) return;
    show((await answer.json()).found.items);
  }

  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, PAUSE); });
  input.addEventListener("blur", () => { asked++; close(); });
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const last = found.length - 1;
    if (event.key === "ArrowDown") mark(chosen < last ? chosen + 1 : 0);
    else if (event.key === "ArrowUp") mark(chosen > 0 ? chosen - 1 : last);
    else if (event.key === "Enter" && chosen >= 0) take(chosen);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}

document.querySelectorAll("input[data-suggest]").forEach(suggest);
