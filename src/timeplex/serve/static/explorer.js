// What every page has: it looks again while the patterns are being learned, and tries again where that helps.
const learning = document.querySelector("[data-learning]");
const again = document.querySelector("[data-again]");

async function look() {
  try {
    const told = await (await fetch("/healthz")).json();
    if (!told.ready) return setTimeout(look, 2000);
    if (again) location.reload();
    else learning.remove();
  } catch {
    setTimeout(look, 5000);
  }
}

if (document.querySelector("[data-searching]")) setTimeout(() => location.reload(), 5000);
if (learning || again) setTimeout(look, 2000);
