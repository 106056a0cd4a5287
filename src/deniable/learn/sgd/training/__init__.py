"""The run itself: one step after another (`trainer`), as a conversation (`steps`), in a user's own loop
(`private`), on several processes (`distributed`), saved on the way (`walk`, `checkpoint`, `saved`), with a
bar (`progress`)."""
