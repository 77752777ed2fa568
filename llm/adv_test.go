package llm

import "testing"

// TestCallCutOffForAnotherReason: a provider's word that no adapter knows, such as Mistral's model_length or vLLM's abort, may be a limit.
func TestCallCutOffForAnotherReason(t *testing.T) {
	for reason, cut := range map[StopReason]bool{StopEnd: false, StopToolCalls: false, StopLength: true, StopRefusal: true, StopOther: true} {
		var c Collector
		for _, e := range []Event{ToolCallDelta{ProviderID: "c", Name: "delete_all"}, Finish{Reason: reason}} {
			if err := c.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		m, _, err := c.Message()
		if err != nil {
			t.Fatal(err)
		}
		if args := string(m.ToolCalls()[0].Arguments); (args != "{}") != cut {
			t.Errorf("%s: %s", reason, args)
		}
	}
}
