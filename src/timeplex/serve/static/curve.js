// The curve under the mouse or the arrow keys, and evidence that lights up its sentence.
const figure = document.querySelector(".tp-curve > svg");
const readout = document.querySelector("[data-readout]");
const rows = [...document.querySelectorAll("[data-curve] tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));

if (figure && rows.length) {
  const guide = document.createElementNS("http://www.w3.org/2000/svg", "line");
  guide.setAttribute("class", "guide");
  guide.setAttribute("y1", "0");
  guide.setAttribute("y2", figure.dataset.high);
  guide.style.display = "none";
  figure.append(guide);

  const show = (at) => {
    const place = `${(100 * (at + 0.5)) / rows.length}%`;
    guide.setAttribute("x1", place);
    guide.setAttribute("x2", place);
    guide.style.display = "";
    readout.textContent = `${rows[at][0]}: ${(100 * Number(rows[at][1])).toFixed(1)} %`;
  };
  const hide = () => { guide.style.display = "none"; readout.textContent = ""; };

  figure.addEventListener("pointermove", (event) => {
    const box = figure.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    show(Math.min(rows.length - 1, Math.max(0, Math.floor(share * rows.length))));
  });
  figure.addEventListener("pointerleave", hide);
}

for (const mark of document.querySelectorAll(".tp-curve .mark")) {
  const sentence = document.querySelector(mark.getAttribute("href"));
  const light = (on) => { sentence?.classList.toggle("lit", on); mark.classList.toggle("lit", on); };
  for (const each of [mark, sentence]) {
    each?.addEventListener("pointerenter", () => light(true));
    each?.addEventListener("pointerleave", () => light(false));
    each?.addEventListener("focusin", () => light(true));
    each?.addEventListener("focusout", () => light(false));
  }
}
