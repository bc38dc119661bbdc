// Runs before the page is drawn, so that a chosen theme does not flash into place.
"use strict";
try {
  const chosen = localStorage.getItem("octavo.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // This browser keeps nothing: the system's theme.
}
