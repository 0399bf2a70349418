"""A text environment of Gymnasium: the sum of two digits, with two tries."""
import gymnasium


class Sums(gymnasium.Env):
    observation_space = gymnasium.spaces.Text(8)
    action_space = gymnasium.spaces.Text(8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        a, b = self.np_random.integers(0, 5, 2)
        self.sum, self.tries = int(a + b), 2
        return f"{a}+{b}", {}

    def step(self, action):
        self.tries -= 1
        right = action == str(self.sum)
        return "?", 0.5 + 0.5 * self.tries if right else 0.0, right, self.tries == 0, {}


gymnasium.register("Sums-v0", Sums)
