// The queue by keys: a key presses the button, follows the link or goes to the field that has it. They can be turned off.
const help = document.querySelector("[data-keys]");
const on = document.querySelector("[data-keys-on]");
const KEPT = "timeplex-keys";

function kept() {
  try { return localStorage.getItem(KEPT) !== "off"; } catch { return true; }
}

if (help && on) {
  help.hidden = false;
  on.checked = kept();
  on.addEventListener("change", () => {
    try { localStorage.setItem(KEPT, on.checked ? "on" : "off"); } catch { /* it is not kept then */ }
  });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const field = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (field && event.key === "Escape") return field.blur();
  if (field || (on && !on.checked) || !/^[a-z]$/.test(event.key)) return;
  const found = document.querySelector(`[data-key="${event.key}"]`);
  if (!found) return;
  event.preventDefault();
  if (found.matches("input")) found.focus();
  else found.click();
});
