require("codecompanion").setup({
  adapters = {
    acp = {
      windlass = function()
        return require("codecompanion.adapters").extend("opencode", {
          name = "windlass",
          formatted_name = "windlass",
          commands = { default = { PROGRAM, "acp" } },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "windlass" } },
})
