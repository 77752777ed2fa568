package llm

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

func BenchmarkAppendSmallCall(b *testing.B) {
	m := smallCall()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = m.AppendJSON(buf[:0])
	}
}

func BenchmarkMarshalSmallCall(b *testing.B) {
	m := smallCall()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = m.MarshalJSON()
	}
}

func BenchmarkDecode1000(b *testing.B) {
	var all [][]byte
	for i := range 1000 {
		m := smallCall()
		switch i % 4 {
		case 0:
			m = UserText("Deploy checkout v2.5.0, please,\nand tell me when it is done.")
		case 2:
			m = Message{Role: RoleTool, Parts: []Part{ToolResult{Call: "call_cv1q8g5k0000000000000000", Name: "deploy", Output: json.RawMessage(`{"ok":true}`)}}}
		case 3:
			m = AssistantText("It is deployed.")
		}
		all = append(all, []byte(encode(b, m)))
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, raw := range all {
			var m Message
			if err := m.UnmarshalJSON(raw); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecodeLargeResult(b *testing.B) {
	m := Message{Role: RoleTool, Parts: []Part{ToolResult{Output: strictjson.AppendString(nil, strings.Repeat("A line of text.\n", 1<<16))}}}
	raw := []byte(encode(b, m))
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if err := m.UnmarshalJSON(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkArguments(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Arguments(`{"service":"checkout","version":"v2.5.0"}`)
	}
}

func BenchmarkCollectOneCall(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var c Collector
		_ = c.Add(ToolCallDelta{ProviderID: "call_0", Name: "deploy", Arguments: `{"service":"checkout","version":"v2.5.0"}`})
		_ = c.Add(Finish{Reason: StopToolCalls})
		_, _, _ = c.Message()
	}
}

func BenchmarkCollectText100Deltas(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var c Collector
		for range 100 {
			_ = c.Add(TextDelta{"token "})
		}
		_ = c.Add(Finish{Reason: StopEnd})
		_, _, _ = c.Message()
	}
}
