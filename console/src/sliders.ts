// The page Explain: what a slider says is worked out by the server, which rounds outward; here it is only asked for.
import { get } from "./server"

export function sliders(): void {
  const form = document.querySelector<HTMLFormElement>("form[data-live]")
  const place = document.querySelector<HTMLElement>("#meaning")
  if (!form || !place) return
  document.documentElement.classList.add("enhanced")
  let timer = 0
  let asked = new AbortController()
  form.addEventListener("input", () => {
    window.clearTimeout(timer)
    timer = window.setTimeout(async () => {
      asked.abort()
      asked = new AbortController()
      const said = new URLSearchParams()
      for (const [name, value] of new FormData(form)) said.append(name, String(value))
      try {
        place.replaceChildren(await get(`${form.getAttribute("action")}?${said}`, asked.signal))
      } catch { /* the next move asks again */ }
    }, 60)
  })
}
