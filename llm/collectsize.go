package llm

// partCost is what a part takes beside its texts, about, in memory and in the
// JSON form. A part that comes in deltas counts it when it begins.
const partCost = 80

// eventSize is about what an event adds to a message, in bytes. A part that comes
// whole counts although it came in pieces before: it was held beside them.
func eventSize(e Event) int {
	switch e := e.(type) {
	case TextDelta:
		return len(e.Text)
	case ReasoningDelta:
		return len(e.Text)
	case ToolCallDelta:
		return len(e.ProviderID) + len(e.Name) + len(e.Arguments)
	case PartDone:
		return partSize(e.Part)
	}
	return 0
}
