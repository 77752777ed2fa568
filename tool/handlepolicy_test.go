package tool_test

import (
	"testing"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// A limit that a record would keep as none is refused, and one that it keeps is
// taken.
func TestTheLimitOfAHandlePolicy(t *testing.T) {
	for limit, ok := range map[time.Duration]bool{
		0: true, time.Millisecond: true, time.Hour: true,
		time.Nanosecond: false, time.Millisecond - 1: false, -time.Second: false,
	} {
		if err := (tool.HandlePolicy{Limit: limit}).Check(); (err == nil) != ok {
			t.Errorf("%v: %v", limit, err)
		}
	}
}
