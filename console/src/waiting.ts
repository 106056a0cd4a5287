// A form whose answer takes long shows that it is on its way, and is not sent twice.
export function waiting(): void {
  document.addEventListener("submit", event => {
    const button = event.submitter
    if (!(button instanceof HTMLButtonElement) || !("slow" in button.dataset)) return
    const bar = document.createElement("div")
    bar.className = "wait"
    bar.setAttribute("role", "status")
    bar.setAttribute("aria-label", "Working")
    button.form?.append(bar)
    window.setTimeout(() => { button.disabled = true }, 0)
  })
}
