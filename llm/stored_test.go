package llm

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is made into testdata")

// Messages as versions have stored them, and as others may have written them:
// with white space, escapes, numbers and equal names within raw values. Each is
// read, and what was read is told beside it, with how it is written again. Raw
// values keep their bytes, since providers sign them.
func TestStoredMessagesStayAsTheyAre(t *testing.T) {
	names, err := filepath.Glob("testdata/stored/*.json")
	if err != nil || len(names) < 6 {
		t.Fatalf("%d messages, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			stored, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			m := decode(t, string(stored))
			again := encode(t, m)
			if !strings.HasSuffix(name, "loose.json") && !strings.HasSuffix(name, "later.json") && again != string(stored) {
				t.Errorf("it is written as\n%s\nand not as\n%s", again, stored)
			}
			if third := encode(t, decode(t, again)); third != again {
				t.Errorf("it is written as\n%s\nand then as\n%s", again, third)
			}
			golden(t, strings.TrimSuffix(name, ".json")+".golden", tell(m)+"\n"+again+"\n")
		})
	}
}

// tell shows all that a message holds, raw values byte for byte.
func tell(m Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "role %q\n", m.Role)
	for _, p := range m.Parts {
		fmt.Fprintf(&b, "%T\n", p)
		switch p := p.(type) {
		case Text:
			fmt.Fprintf(&b, "\ttext %q\n", p.Text)
			b.WriteString(tellNative(p.Native))
		case Reasoning:
			fmt.Fprintf(&b, "\ttext %q\n", p.Text)
			b.WriteString(tellNative(p.Native))
		case ToolCall:
			fmt.Fprintf(&b, "\tid %q name %q provider_id %q\n\targuments %q\n", p.ID, p.Name, p.ProviderID, p.Arguments)
			b.WriteString(tellNative(p.Native))
		case ToolResult:
			fmt.Fprintf(&b, "\tcall %q name %q error %v\n\toutput %q\n", p.Call, p.Name, p.Error, p.Output)
			for _, m := range p.Media {
				fmt.Fprintf(&b, "\tmedia %q %q %x %q\n", m.MediaType, m.Name, m.Data, m.URL)
				b.WriteString(tellNative(m.Native))
			}
		case Notice:
			fmt.Fprintf(&b, "\thandle %q tool %q call %q state %q\n\ttext %q\n", p.Handle, p.Tool, p.Call, p.State, p.Text)
		case Media:
			fmt.Fprintf(&b, "\tmedia %q %q %x %q\n", p.MediaType, p.Name, p.Data, p.URL)
			b.WriteString(tellNative(p.Native))
		case Opaque:
			b.WriteString(tellNative(&p.Native))
		case Unknown:
			fmt.Fprintf(&b, "\ttype %q\n\traw %q\n", p.Type, p.Raw)
		}
	}
	if m.Extra != nil {
		fmt.Fprintf(&b, "extra %q\n", m.Extra)
	}
	return b.String()
}

func tellNative(n *Native) string {
	if n == nil {
		return ""
	}
	if n.Data == nil {
		return fmt.Sprintf("\tnative of %q, no data\n", n.Provider)
	}
	return fmt.Sprintf("\tnative of %q: %q\n", n.Provider, n.Data)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A part by itself keeps its bytes too, wherever it isn't encoding/json that
// writes it.
func TestStoredPartsStayAsTheyAre(t *testing.T) {
	const stored = `{"type":"tool_call","id":"c","arguments":{ "a" : 1.0e2, "a" : "\/\u003c" }}`
	var c ToolCall
	if err := c.UnmarshalJSON([]byte(stored)); err != nil {
		t.Fatal(err)
	}
	if got, err := c.MarshalJSON(); err != nil || string(got) != stored {
		t.Errorf("%s, %v", got, err)
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, []byte(stored))
	// What encoding/json does to it: no white space, and escapes for HTML.
	if got, err := json.Marshal(c); err != nil || string(got) != compact.String() {
		t.Errorf("%s, %v", got, err)
	}
}
