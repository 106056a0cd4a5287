// Talking to the server: forms are sent as forms, parts of pages come back, and their text is the server's own.
const meta = (name: string): string =>
  document.querySelector<HTMLMetaElement>(`meta[name=${name}]`)?.content ?? ""

export const styleNonce = meta("style-nonce")

export async function post(path: string, form: HTMLFormElement, signal?: AbortSignal): Promise<DocumentFragment> {
  const body = new URLSearchParams()
  for (const [name, value] of new FormData(form)) if (typeof value === "string") body.append(name, value)
  const headers = { "x-fragment": "1", "x-csrf-token": meta("form-token") }
  return part(await fetch(path, { method: "POST", body, headers, signal, redirect: "error" }))
}

export async function get(path: string, signal?: AbortSignal): Promise<DocumentFragment> {
  return part(await fetch(path, { headers: { "x-fragment": "1" }, signal, redirect: "error" }))
}

async function part(response: Response): Promise<DocumentFragment> {
  const drawn = new DOMParser().parseFromString(await response.text(), "text/html")
  const found = document.createDocumentFragment()
  found.append(...Array.from(drawn.body.childNodes).map(node => document.importNode(node, true)))
  return found
}

export function sentence(words: string): HTMLElement {
  const line = document.createElement("p")
  line.className = "note bad"
  line.setAttribute("role", "alert")
  line.textContent = words
  return line
}
