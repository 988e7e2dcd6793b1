{
  description = "@DESCRIPTION@";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs = { self, nixpkgs }:
    let
      archives = {
@SYSTEMS@
      };
      package = system: archive:
        let pkgs = nixpkgs.legacyPackages.${system};
        in pkgs.stdenv.mkDerivation {
          pname = "windlass";
          version = "@VERSION@";
          src = pkgs.fetchurl archive;
          sourceRoot = ".";
          nativeBuildInputs = [ pkgs.installShellFiles ]
            ++ pkgs.lib.optional pkgs.stdenv.isLinux pkgs.autoPatchelfHook;
          buildInputs = pkgs.lib.optional pkgs.stdenv.isLinux pkgs.stdenv.cc.cc.lib;
          installPhase = ''
            install -Dm755 windlass $out/bin/windlass
            installManPage man/*.1
            installShellCompletion --cmd windlass --bash completions/windlass.bash \
              --zsh completions/_windlass --fish completions/windlass.fish
          '';
          meta.mainProgram = "windlass";
        };
    in {
      packages = builtins.mapAttrs (system: archive: { default = package system archive; }) archives;
    };
}
