package handles

// Guidance is what the instructions say while there is a tool whose calls may
// be actions. It is some 140 tokens, at four bytes each.
const Guidance = "Tools with a parameter `action` can work while you go on. " +
	"Without `action`, a call waits for its result. With `action` \"spawn\" and an `id` that you " +
	"choose, it begins a handle and returns at once. Spawn what can be done side by side, go on " +
	"with what you can do meanwhile, and then call `" + AwaitTool + "` with the ids, rather than " +
	"fetch again and again. \"fetch\" shows what is new, \"apply\" gives input or answers a " +
	"question that is for you, \"abort\" stops the handle. What a handle asks the user is not " +
	"yours to answer. Abort what you no longer need before you end your turn."
