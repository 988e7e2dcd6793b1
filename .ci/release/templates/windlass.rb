class Windlass < Formula
  desc "Coding agent in one binary: terminal, editors by ACP, pipes"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license "@LICENSE@"

@BLOCKS@

  def install
    bin.install "windlass"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/windlass.bash" => "windlass"
    zsh_completion.install "completions/_windlass"
    fish_completion.install "completions/windlass.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/windlass --version")
  end
end
