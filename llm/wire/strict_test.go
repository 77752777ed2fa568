package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/fermata-ai/fermata/llm/wire"
)

// TestDropNullsKeepsDuplicates: arguments that name a member twice are refused
// by the tool; leaving out the one that is null would let the other pass.
func TestDropNullsKeepsDuplicates(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}`)
	for _, args := range []string{`{"a":null,"a":1}`, `{"a":1,"a":null}`, `{"a":9007199254740993,"\u0061":null}`} {
		if got := wire.DropNulls(json.RawMessage(args), schema); string(got) != args {
			t.Errorf("%s became %s", args, got)
		}
	}
	if got := wire.DropNulls(json.RawMessage(`{"a":18446744073709551615,"b":null}`), schema); string(got) != `{"a":18446744073709551615}` {
		t.Error(string(got))
	}
}
