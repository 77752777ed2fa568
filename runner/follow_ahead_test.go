package runner

import "testing"

// What a model says comes behind the messages before it, however late the model
// has begun: that is looked at when what it says is taken, and not before.
func TestSpeechWaitsForTheMessagesBeforeIt(t *testing.T) {
	var l live
	l.feeds = map[string]*feed{}
	f, closeFeed := l.open("chat")
	defer closeFeed()
	tap := f.tap()
	defer tap.close()
	f.begins(1, 7, 3)
	f.say(false, "Hello.")
	if events, ahead := tap.heard(2, 6); len(events) != 0 || ahead != 7 {
		t.Errorf("a follower without message 2 is shown %v, and call %d is ahead", events, ahead)
	}
	if events, ahead := tap.heard(3, 7); len(events) != 1 || ahead != 0 {
		t.Errorf("a follower with it is shown %v, and call %d is ahead", events, ahead)
	}
}
