(defun windlass ()
  "Start a windlass shell."
  (interactive)
  (require 'agent-shell)
  (agent-shell-start
   :config (agent-shell-make-agent-config
            :identifier 'windlass
            :mode-line-name "windlass"
            :buffer-name "windlass"
            :shell-prompt "windlass> "
            :shell-prompt-regexp "windlass> "
            :client-maker (lambda (buffer)
                            (acp-make-client :command PROGRAM
                                             :command-params '("acp")
                                             :context-buffer buffer)))))
