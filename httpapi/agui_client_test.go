package httpapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// AG-UI's own client, at its version 1.0.0, runs, is interrupted, answers, and
// comes back, and finds nothing that breaks the protocol.
func TestAGUIOfItsOwnClient(t *testing.T) {
	installed := filepath.Join("..", ".tools", "agui", "node_modules", "@ag-ui", "client",
		"package.json")
	node, err := exec.LookPath("node")
	if _, statErr := os.Stat(installed); err != nil || statErr != nil {
		const missing = "AG-UI's client is not here; it needs Node.js 20 or newer, and: make agui-client"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	at, err := filepath.Abs(installed)
	must(t, err)
	s := newSite(t, siteOptions{})
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), node, "testdata/agui/client.mjs", s.server.URL+"/agui", at)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var last []string
	var asked []string
	for line := range strings.Lines(string(out)) {
		var run struct {
			Types, Interrupts, Messages []string
			Fault                       string
		}
		must(t, json.Unmarshal([]byte(line), &run))
		if run.Fault != "" {
			t.Errorf("the client finds a fault: %s", run.Fault)
			continue
		}
		asked = append(asked, strings.Join(run.Interrupts, " "))
		last = run.Messages
	}
	if diff := cmp.Diff([]string{"tool_call", "", "input_required", "", "", ""}, asked); diff != "" {
		t.Errorf("what the runs ask differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"user: pay", `assistant:  pay{"cents":500}`, "tool: paid", "assistant: Paid.",
		"user: ask", "assistant:  ask{}", "tool: Cancelled: the user has left it unanswered. The work had " +
			"begun, and may have had effects.", "assistant: Thanks.",
		"user: report", "assistant:  report{}", "tool: made", "assistant: Here it is.",
	}, last); diff != "" {
		t.Errorf("what the client shows differs (-want +got):\n%s", diff)
	}
}
