"""The web console: pages for owners, analysts and auditors. Plain forms that work without a script; the
script adds the editor and the preview while typing.

No GET asks or charges anything. Every POST comes from this site itself and carries a token of its session.
"""
