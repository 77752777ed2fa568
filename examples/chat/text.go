package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/fermata-ai/fermata/tool"
)

// waits returns what a call waits for, in words.
func waits(p tool.Pause) string {
	what := map[tool.Reason]string{
		tool.ReasonExternal: "a job",
		tool.ReasonApproval: "an approval",
		tool.ReasonInput:    "an answer",
		tool.ReasonUnknown:  "a person who knows what became of it",
	}[p.Await.Reason]
	if what == "" {
		what = string(p.Await.Reason)
	}
	if p.Await.Key != "" {
		what += " (" + p.Await.Key + ")"
	}
	if !p.Deadline.IsZero() {
		what += ", until " + p.Deadline.Local().Format("Jan 2 15:04")
	}
	return fmt.Sprintf("%s waits for %s  (%s)", p.Tool, what, p.Call)
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func short(raw json.RawMessage) string {
	const most = 200
	if r := []rune(string(raw)); len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(raw)
}

// clean returns a text without the characters that would steer a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}
