// Runs before the first paint, so that nothing flashes; the button that changes it is in shell.js.
try {
  const theme = localStorage.getItem("batchline.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing shows what the system prefers.
}
